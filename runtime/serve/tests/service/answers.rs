//! Which classes are answered: all, or those alone that were taught; and a class that replaces one of the bundle.

use orco_runtime::bundle::Bundle;
use orco_runtime::learner::{AnswerScope, LearnerSettings, ScopeFile};
use orco_runtime::store::Store;
use orco_serve::{ServerOptions, Service};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Running, sample, workspace};

fn labels(answer: &Value) -> Vec<&str> {
    answer["matches"].as_array().unwrap().iter().map(|found| found["label"].as_str().unwrap()).collect()
}

#[test]
fn answers_name_what_was_taught_alone_once_that_is_enough() {
    let state = TempDir::new().unwrap();
    let bundle = Bundle::open(workspace().join("models/cifar100-edge")).unwrap();
    let settings = LearnerSettings::default().scope(AnswerScope::Auto);
    let service = Service::open(bundle, Store::new(state.path()), settings).unwrap();
    let service = Running::serving(service, ServerOptions::default());
    let all = |service: &Running| service.picture("/api/v1/classify?top=100", &sample("try", "rubber-duck", 1)).ok();
    service.teach("duck", "rubber-duck");
    service.teach("cone", "traffic-cone");
    assert_eq!(service.get("/api/v1/status")["learned_only"], false);
    assert_eq!(labels(&all(&service)).len(), 62);
    service.teach("mug", "mug");
    let status = service.get("/api/v1/status");
    assert_eq!((&status["answers"], &status["learned_only"]), (&json!("auto"), &json!(true)));
    assert_eq!(labels(&all(&service)).len(), 3);
    let answers = |class| -> Vec<Value> {
        let answer = |number| service.picture("/api/v1/classify", &sample("try", class, number)).ok();
        (1..=8).map(answer).collect()
    };
    let is_known = |answer: &&Value| answer["known"] == true;
    let (ducks, cacti) = (answers("rubber-duck"), answers("cactus"));
    let [ducks_known, cacti_known] = [&ducks, &cacti].map(|answers| answers.iter().filter(is_known).count());
    // A thing that nobody taught is unknown more often.
    assert!(ducks_known >= 5 && cacti_known < ducks_known, "{ducks_known} ducks, {cacti_known} cacti");
    for answer in ducks.iter().chain(&cacti) {
        let first = answer["set"].as_array().unwrap().first();
        assert_eq!(first, is_known(&answer).then_some(&answer["matches"][0]["label"]), "{answer}");
    }

    let add_to_apple = |number| {
        service.picture("/api/v1/shots/apple", &sample("learn", "cactus", number)).ok();
        service.finished(&service.json("POST", "/api/v1/learn", &json!({ "label": "apple" })))
    };
    let unanswered = add_to_apple(1);
    let warning = unanswered["warning"].as_str().unwrap_or_default();
    assert!(warning.starts_with("no answer names \"apple\""), "{unanswered}");

    let set = service.json("POST", "/api/v1/answers", &json!({ "answers": "all" })).ok();
    assert_eq!(set, json!({ "answers": "all", "learned_only": false }));
    assert_eq!(labels(&all(&service)).len(), 63);
    assert_eq!(add_to_apple(2)["warning"], Value::Null, "all classes are answered now");
    let wrong = service.json("POST", "/api/v1/answers", &json!({ "answers": "some" }));
    assert_eq!((wrong.status, wrong.error()), (400, "answers must be one of auto, learned, all".into()));
    // For the next start, which asks it before it opens the service.
    assert_eq!(ScopeFile::of(state.path()).read().unwrap(), Some(AnswerScope::All));
}

#[test]
fn a_class_replaces_one_of_the_bundle_until_it_is_forgotten() {
    let (_state, service) = Running::fresh();
    for number in 1..=5 {
        service.picture("/api/v1/shots/apple", &sample("learn", "rubber-duck", number)).ok();
    }
    let asked = json!({ "label": "apple", "base": "replace" });
    let job = service.finished(&service.json("POST", "/api/v1/learn", &asked));
    assert_eq!(job["state"], "done", "{job}");
    let apples = |service: &Running| -> Vec<[Value; 3]> {
        let classes = service.get("/api/v1/classes")["classes"].as_array().unwrap().clone();
        let apples = classes.into_iter().filter(|class| class["label"] == "apple");
        apples.map(|class| ["learned", "replaced", "shots"].map(|key| class[key].clone())).collect()
    };
    let [base, own] = [[json!(false), json!(true), json!(0)], [json!(true), json!(false), json!(5)]];
    assert_eq!(apples(&service), [base, own]);
    let right = (1..=8).filter(|number| service.label(&sample("try", "rubber-duck", *number)) == "apple").count();
    // As many as of a class of any other name.
    assert!(right >= 4, "{right}");
    let forgotten = service.finished(&service.ask("DELETE", "/api/v1/classes/apple", &[], b""));
    assert_eq!(forgotten["state"], "done", "{forgotten}");
    assert_eq!(apples(&service), [[json!(false), json!(false), json!(0)]]);
}
