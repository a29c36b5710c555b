//! Tensors of the Open Inference Protocol: which forms are read, which are refused, and how outputs are written.

use super::*;

fn read(json: &str) -> Result<Tensor, String> {
    let body = Bytes::copy_from_slice(json.as_bytes());
    super::read(&body, body.len(), 3).map(|request| request.tensor).map_err(|refusal| refusal.sentence)
}

fn features(shape: &str, data: &str) -> Result<Vec<f32>, String> {
    let json = format!(r#"{{"inputs":[{{"data":{data},"name":"features","datatype":"FP32","shape":{shape}}}]}}"#);
    match read(&json)? {
        Tensor::Rows(rows) => Ok(rows.into_raw_vec_and_offset().0),
        Tensor::Pictures(_) => unreachable!(),
    }
}

fn images(shape: &str, data: &str) -> Result<Vec<Bytes>, String> {
    let json = format!(r#"{{"inputs":[{{"name":"image","datatype":"BYTES","shape":{shape},"data":{data}}}]}}"#);
    match read(&json)? {
        Tensor::Pictures(files) => Ok(files),
        Tensor::Rows(_) => unreachable!(),
    }
}

#[test]
fn numbers_are_read_flat_or_in_rows_whatever_comes_first() {
    assert_eq!(features("[1,3]", "[1,-2.5,3e2]").unwrap(), [1.0, -2.5, 300.0]);
    assert_eq!(features("[2,3]", "[[1,2,3],[4,5,6]]").unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(features("[1,3]", " [ 9223372036854775807 , -4611686018427387904,0]").unwrap()[2], 0.0);
}

#[test]
fn what_is_more_than_its_shape_is_refused_where_it_begins() {
    for (shape, data, told) in [
        ("[1,3]", "[1,2,3,4]", "more elements than its shape"),
        ("[1,3]", "[[1,2],[3,4]]", "more elements than its shape"),
        ("[1,3]", "[1,2]", "as many numbers"),
        ("[1,3]", "[[[1,2,3]]]", "too deep"),
        ("[1,3]", r#"[1,2,"3"]"#, "expected a number"),
        ("[1,3]", "[1,2,null]", "expected a number"),
        ("[1,3]", "{}", "expected a list"),
        ("[1,3]", "null", "neither \"data\" nor \"binary_data_size\""),
        ("[1,3]", "3", "expected a list"),
        ("[4097,3]", "[]", "n from 1 to 4096"),
        ("[0,3]", "[]", "n from 1 to 4096"),
        ("[3]", "[1,2,3]", "must be [n, 3]"),
        ("[]", "[]", "must be [n, 3]"),
        ("[1,4]", "[1,2,3,4]", "must have the shape [n, 3]"),
        ("[1,1,3]", "[1,2,3]", "must be [n, 3]"),
        ("3", "[1,2,3]", "a list of whole numbers"),
        ("[-1,3]", "[1,2,3]", "invalid value"),
        ("[18446744073709551615,3]", "[1]", "n from 1 to 4096"),
    ] {
        let error = features(shape, data).unwrap_err();
        assert!(error.contains(told), "{shape} {data}: {error}");
    }
    let long = format!("[{}1,2,3]", " ".repeat(MAX_NUMBER_CHARS * 5));
    assert!(features("[1,3]", &long).is_err(), "spaces are not counted as numbers");
}

#[test]
fn numbers_without_a_norm_are_refused() {
    for data in ["[3e38,0,0]", "[1e20,0,0]", "[1e39,0,0]", "[-3.4e38,1,1]"] {
        assert!(features("[1,3]", data).unwrap_err().contains("must be finite"), "{data}");
    }
    assert!(features("[1,3]", "[1e18,1e18,-1e18]").is_ok() && features("[1,3]", "[1e999,0,0]").is_err());
}

#[test]
fn files_are_read_from_base64_also_where_it_is_escaped() {
    assert_eq!(images("[2]", r#"["AAEC","\/\/79"]"#).unwrap(), [&[0u8, 1, 2][..], &[255, 254, 253]]);
    for (shape, data, told) in [
        ("[1]", r#"["AAEC","AAEC"]"#, "more elements than its shape"),
        ("[2]", r#"["AAEC"]"#, "does not match its shape"),
        ("[1]", r#"["AAE"]"#, "no Base64"),
        ("[1]", "[1]", "expected a text"),
        ("[1]", r#"[["AAEC"]]"#, "too deep"),
        ("[65]", "[]", "n from 1 to 64"),
        ("[1,1]", r#"["AAEC"]"#, "n from 1 to 64"),
        ("[1,1,1,1]", r#"["AAEC"]"#, "n from 1 to 64"),
    ] {
        let error = images(shape, data).unwrap_err();
        assert!(error.contains(told), "{shape} {data}: {error}");
    }
}

#[test]
fn a_picture_that_stands_in_the_wrong_place_is_not_sent_back() {
    let picture = format!("\"{}\"", "A".repeat(100_000));
    for (refused, told) in [
        (images("[1]", &picture), "must be a list of files in Base64: invalid type: string \"AAA"),
        (images(&picture, "[]"), "the request: invalid type: string \"AAA"),
    ] {
        let error = refused.unwrap_err();
        assert!(error.len() < 1000, "{} bytes", error.len());
        assert!(error.contains(told) && error.contains("AAA…AAA") && error.contains(" at line 1 column "), "{error}");
    }
}

#[test]
fn whoever_sends_pixels_is_told_that_files_are_taken() {
    for datatype in ["UINT8", "FP32"] {
        let shape = "[1,1,2,3]";
        let json = format!(
            r#"{{"inputs":[{{"name":"image","datatype":"{datatype}","shape":{shape},"data":[1,2,3,4,5,6]}}]}}"#
        );
        assert!(read(&json).unwrap_err().contains("\"image\" of BYTES, files of pictures"), "{datatype}");
    }
}

#[test]
fn one_input_is_taken_and_a_short_identifier() {
    let input = r#"{"name":"image","datatype":"BYTES","shape":[1],"data":["AAEC"]}"#;
    assert!(read(&format!(r#"{{"id":"7","inputs":[{input}],"outputs":[{{"name":"label"}}]}}"#)).is_ok());
    // Some clients write the fields that they leave empty.
    let empty = input.replace(r#""shape""#, r#""parameters":null,"shape""#);
    let outputs = r#"[{"name":"label","parameters":null}]"#;
    let request = format!(r#"{{"id":null,"inputs":[{empty}],"outputs":{outputs},"parameters":null}}"#);
    assert!(read(&request).is_ok(), "{:?}", read(&request).err());
    assert!(read(&format!("\u{feff}{request}")).is_ok(), "a file of Windows");
    for (json, told) in [
        (format!(r#"{{"inputs":[{input},{input}]}}"#), "expected one input"),
        (r#"{"inputs":[]}"#.into(), "expected one input"),
        ("{}".into(), "missing field `inputs`"),
        (format!(r#"{{"id":"{}","inputs":[{input}]}}"#, "7".repeat(257)), "at most 256 bytes"),
        (format!(r#"{{"inputs":[{}]}}"#, input.replace("BYTES", "FP32")), "the input must be"),
        (format!("{}{}", "[".repeat(200), "]".repeat(200)), "the request: "),
    ] {
        let error = read(&json).unwrap_err();
        assert!(error.contains(told), "{json}: {error}");
    }
}

#[test]
fn parameters_of_extensions_that_are_not_there_are_refused() {
    let input = r#"{"name":"image","datatype":"BYTES","shape":[1],"parameters":{},"data":["AAEC"]}"#;
    let request = |input: &str, parameters: &str| {
        let outputs = format!(r#"[{{"name":"label","parameters":{{{parameters}}}}}]"#);
        read(&format!(r#"{{"inputs":[{input}],"outputs":{outputs}}}"#)).map(drop)
    };
    assert_eq!(request(input, r#""binary_data":false,"classification":null"#), Ok(()));
    let (region, classes) = (r#""shared_memory_region":"gpu""#, r#""classification":2"#);
    let in_memory = input.replace("{}", &format!("{{{region}}}"));
    for (input, parameters, told) in [
        (input, classes, "no classification extension"),
        (input, region, "no shared memory extension: take the data from the answer"),
        (in_memory.as_str(), "", "no shared memory extension: send the data itself"),
    ] {
        let error = request(input, parameters).unwrap_err();
        assert!(error.contains(told), "{input} {parameters}: {error}");
    }
}

#[test]
fn the_openapi_document_says_how_long_an_identifier_may_be() {
    let document: serde_json::Value = serde_json::from_str(crate::page::OPENAPI).unwrap();
    let id = &document["components"]["schemas"]["InferenceRequest"]["properties"]["id"];
    assert_eq!(id["maxLength"], MAX_ID_BYTES);
}

#[test]
fn outputs_are_those_that_are_named_in_the_form_that_is_asked_for() {
    use OutputForm::{Binary, Json};
    let outputs = |more: &str| {
        let input = r#"{"name":"features","datatype":"FP32","shape":[1,3],"data":[1,2,3]}"#;
        let json = format!(r#"{{"inputs":[{input}]{more}}}"#);
        let body = Bytes::from(json);
        super::read(&body, body.len(), 3).map(|request| request.form.outputs.0).map_err(|refusal| refusal.sentence)
    };
    assert_eq!(outputs(""), Ok([Some(Json); 4]));
    assert_eq!(outputs(r#","outputs":[]"#), Ok([Some(Json); 4]));
    assert_eq!(outputs(r#","parameters":{"binary_data_output":true}"#), Ok([Some(Binary); 4]));
    let label = r#","outputs":[{"name":"label","parameters":{"binary_data":true}},{"name":"known"}]"#;
    assert_eq!(outputs(label), Ok([Some(Binary), None, None, Some(Json)]));
    let unknown = outputs(r#","outputs":[{"name":"zzz"}]"#).unwrap_err();
    assert!(unknown.contains("zzz") && unknown.contains("probabilities"), "{unknown}");
}

#[test]
fn binary_files_stand_behind_their_lengths() {
    let head = |size: usize, count: usize| {
        format!(
            r#"{{"inputs":[{{"name":"image","datatype":"BYTES","shape":[{count}],"parameters":{{"binary_data_size":{size}}}}}]}}"#
        )
    };
    let read = |count: usize, binary: &[u8]| {
        let json = head(binary.len(), count);
        let body = Bytes::from([json.as_bytes(), binary].concat());
        super::read(&body, json.len(), 3).map(|request| request.tensor)
    };
    let binary = [2, 0, 0, 0, 7, 8, 0, 0, 0, 0];
    let Ok(Tensor::Pictures(files)) = read(2, &binary) else { panic!() };
    assert_eq!(files, [&[7u8, 8][..], &[]]);
    assert!(read(1, &binary).is_err() && read(3, &binary).is_err() && read(2, &binary[..9]).is_err());
}
