//! Features of many pictures: engines compute side by side while the next pictures are prepared. However many pictures
//! there are, a bounded number is in memory; results come in the order of the pictures.

use std::collections::BTreeMap;
use std::fmt;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ::image::RgbImage;
use ndarray::{Array2, ArrayView2, ArrayView4, Axis, concatenate};

use super::{EncodeError, Encoder, encode_parts, pictures_at_once, to_planes};
use crate::image::Preprocessing;
use crate::threads::lock;

/// Engines with the same backbone that compute side by side, each on its own share of the processor's cores.
///
/// Small batches on one core each take less time together than one batch after the other on all of them.
pub struct EncoderPool {
    members: Vec<Box<dyn Encoder>>,
}

impl fmt::Debug for EncoderPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncoderPool").field("members", &self.members.len()).finish_non_exhaustive()
    }
}

impl EncoderPool {
    /// A pool of at least one engine.
    pub fn new(first: Box<dyn Encoder>, others: Vec<Box<dyn Encoder>>) -> Self {
        Self { members: iter::once(first).chain(others).collect() }
    }
}

impl Encoder for EncoderPool {
    fn engine(&self) -> String {
        self.members[0].engine()
    }

    /// Every member encodes a part of the images.
    fn encode(&mut self, images: ArrayView4<'_, f32>) -> Result<Array2<f32>, EncodeError> {
        let each = images.dim().0.div_ceil(self.members.len()).max(1);
        let parts = images.axis_chunks_iter(Axis(0), each);
        if parts.len() < 2 {
            return self.members[0].encode(images);
        }
        let mut rows = Vec::new();
        map_in_order(
            self,
            parts,
            |part| part,
            |member, part| member.encode(part),
            |part| {
                rows.push(part);
                Ok::<(), EncodeError>(())
            },
        )?;
        let rows: Vec<ArrayView2<'_, f32>> = rows.iter().map(|part| part.view()).collect();
        concatenate(Axis(0), &rows).map_err(|error| EncodeError::Run(error.to_string()))
    }

    fn members(&mut self) -> &mut [Box<dyn Encoder>] {
        &mut self.members
    }
}

/// What a backbone takes and returns.
#[derive(Clone, Copy, Debug)]
pub struct BackboneShape<'a> {
    /// The pictures that it takes.
    pub input: &'a Preprocessing,
    /// Length of the feature vector that it returns for each.
    pub features: usize,
}

/// How views are drawn from a picture.
#[derive(Clone, Copy, Debug)]
pub struct ViewSource<D> {
    /// Views of each picture.
    pub count: usize,
    /// Draws them, as [fitted](Preprocessing::fit) pictures.
    pub draw: D,
}

/// Computes features of a stream of pictures. Views are drawn beside the engines; `each` gets the features of one
/// picture after the other, `[views, features]`.
///
/// Images go through an engine in batches of at most [`batch_size`](super::batch_size): one picture's views and their
/// parts are several batches if they are more. ONNX Runtime gives the shipped backbones' features bit for bit alike in
/// any batch; a layer whose sums it orders by the batch's size, as it may for a matrix product, would differ by
/// rounding. An error ends the stream.
///
/// # Errors
/// [`EncodeError`] if the engine fails or returns something else, and what `each` returns.
pub fn encode_stream<E: From<EncodeError>>(
    encoder: &mut dyn Encoder,
    shape: BackboneShape<'_>,
    mut pictures: impl Iterator<Item = RgbImage>,
    views: ViewSource<impl Fn(&RgbImage) -> Vec<RgbImage> + Sync>,
    mut each: impl FnMut(ArrayView2<'_, f32>) -> Result<(), E>,
) -> Result<(), E> {
    let BackboneShape { input, features } = shape;
    let ViewSource { count, draw } = views;
    let pictures_per_job = pictures_at_once(input, count);
    let jobs = iter::from_fn(|| {
        let job: Vec<RgbImage> = pictures.by_ref().take(pictures_per_job).collect();
        (!job.is_empty()).then_some(job)
    });
    let prepare = |job: Vec<RgbImage>| {
        let views: Vec<RgbImage> = job.iter().flat_map(&draw).collect();
        to_planes(input, &views)
    };
    map_in_order(
        encoder,
        jobs,
        prepare,
        |engine, planes| encode_parts(engine, input, features, planes.view()),
        |rows| rows.axis_chunks_iter(Axis(0), count.max(1)).try_for_each(&mut each),
    )
}

/// Does jobs on an encoder's members side by side: `prepare` runs beside them, `encode` on one of them, and `each` gets
/// the results in the order of the jobs. An encoder without members does one job while the next is prepared. Jobs are
/// taken from `jobs` on the caller's thread, only as they are needed: at most two for each thread are in progress.
///
/// # Errors
/// The first that `encode` or `each` returns.
pub fn map_in_order<J: Send, P, R: Send, E: From<EncodeError>>(
    encoder: &mut dyn Encoder,
    jobs: impl Iterator<Item = J>,
    prepare: impl Fn(J) -> P + Sync,
    encode: impl Fn(&mut dyn Encoder, P) -> Result<R, EncodeError> + Sync,
    mut each: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let engines: Vec<Mutex<&mut dyn Encoder>> = if encoder.members().is_empty() {
        vec![Mutex::new(encoder)]
    } else {
        encoder.members().iter_mut().map(|member| Mutex::new(member.as_mut() as &mut dyn Encoder)).collect()
    };
    let work = |engine: &Mutex<&mut dyn Encoder>, job: J| {
        let prepared = prepare(job);
        encode(&mut **lock(engine), prepared)
    };
    let (to_workers, waiting) = channel::<(usize, J)>();
    let waiting = Mutex::new(waiting);
    let (work, waiting) = (&work, &waiting);
    let mut jobs = jobs.fuse();
    thread::scope(|scope| {
        // Both ends here, so that the workers end with this function however it ends.
        let (to_workers, (done, results)) = (to_workers, channel());
        let mut workers = 0;
        for worker in 0..engines.len().max(2) {
            let (engine, done) = (&engines[worker % engines.len()], done.clone());
            let run = move || work_until_empty(waiting, &done, |job| work(engine, job));
            workers += usize::from(thread::Builder::new().name("features".into()).spawn_scoped(scope, run).is_ok());
        }
        drop(done);
        if workers == 0 {
            log::warn!("no thread can be started, so features are computed on one");
            return jobs.try_for_each(|job| each(work(&engines[0], job)?));
        }
        let (mut sent, mut delivered) = (0, 0);
        let mut early = BTreeMap::new();
        loop {
            for job in jobs.by_ref().take(2 * workers - (sent - delivered)) {
                to_workers.send((sent, job)).expect("the receiver is above");
                sent += 1;
            }
            if delivered == sent {
                return Ok(());
            }
            let (number, result) = results.recv().expect("workers answer every job");
            early.insert(number, result.unwrap_or_else(|panic| resume_unwind(panic))?);
            while let Some(result) = early.remove(&delivered) {
                delivered += 1;
                each(result)?;
            }
        }
    })
}

/// A job's result with its number, or the panic that it ended with.
type NumberedResult<T> = (usize, thread::Result<T>);

/// Does jobs until there will be none, or nobody waits for their results.
fn work_until_empty<J, T>(
    waiting: &Mutex<Receiver<(usize, J)>>,
    done: &Sender<NumberedResult<T>>,
    work: impl Fn(J) -> T,
) {
    while let Some((number, job)) = next(waiting) {
        // A panic is the caller's, who would wait for the result otherwise.
        let result = catch_unwind(AssertUnwindSafe(|| work(job)));
        if done.send((number, result)).is_err() {
            return;
        }
    }
}

/// The next job; none once there will be none.
fn next<J>(waiting: &Mutex<Receiver<J>>) -> Option<J> {
    lock(waiting).recv().ok()
}

#[cfg(test)]
mod tests {
    use ndarray::Array4;

    use super::*;
    use crate::encoder::encode_pictures;
    use crate::image::{Look, LookPart};

    const INPUT: Preprocessing =
        Preprocessing { width: 1, height: 1, mean: [0.0; 3], deviation: [1.0; 3], look: Look::WHOLE };

    const SHAPE: BackboneShape<'_> = BackboneShape { input: &INPUT, features: 1 };

    /// An engine whose one feature is the first number of an image; it fails on a number above 1.
    struct FirstNumber;

    impl Encoder for FirstNumber {
        fn engine(&self) -> String {
            "first".into()
        }

        fn encode(&mut self, images: ArrayView4<'_, f32>) -> Result<Array2<f32>, EncodeError> {
            let rows = Array2::from_shape_fn((images.dim().0, 1), |(row, _)| images[[row, 0, 0, 0]]);
            let fails = rows.iter().any(|value| *value > 1.0);
            if fails { Err(EncodeError::Run("above 1".into())) } else { Ok(rows) }
        }
    }

    fn pool(count: usize) -> EncoderPool {
        EncoderPool::new(Box::new(FirstNumber), (1..count).map(|_| Box::new(FirstNumber) as Box<dyn Encoder>).collect())
    }

    fn pictures(count: usize) -> impl Iterator<Item = RgbImage> {
        (0..count).map(|number| RgbImage::from_pixel(1, 1, ::image::Rgb([(number % 251) as u8; 3])))
    }

    #[test]
    fn features_come_in_the_order_of_the_pictures_view_by_view() {
        let draw = |picture: &RgbImage| vec![picture.clone(), RgbImage::from_pixel(1, 1, ::image::Rgb([255; 3]))];
        let streamed = |encoder: &mut dyn Encoder| {
            let mut rows = Vec::<f32>::new();
            let each = |views: ArrayView2<'_, f32>| {
                assert_eq!(views.dim(), (2, 1));
                rows.extend(views.iter());
                Ok::<(), EncodeError>(())
            };
            encode_stream(encoder, SHAPE, pictures(1000), ViewSource { count: 2, draw }, each).unwrap();
            rows
        };
        let expected: Vec<f32> = (0..1000).flat_map(|number| [(number % 251) as f32 / 255.0, 1.0]).collect();
        assert_eq!(streamed(&mut FirstNumber), expected);
        assert_eq!(streamed(&mut pool(1)), expected);
        assert_eq!(streamed(&mut pool(5)), expected);
    }

    #[test]
    fn features_of_a_closer_look_are_the_weighted_mean_over_its_parts() {
        // A white frame of a pixel around black: the whole is partly white, the middle black.
        let is_edge = |x, y| [x, y].into_iter().any(|at| at == 0 || at == 3);
        let picture =
            |white: u8| RgbImage::from_fn(4, 4, |x, y| ::image::Rgb([if is_edge(x, y) { white } else { 0 }; 3]));
        let part = |side, weight| LookPart { side, weight };
        let look = Look::weighted(&[LookPart::WHOLE, part(0.5, 1.0), part(0.25, 0.5)]).unwrap();
        let input = Preprocessing { look, ..INPUT };
        let shape = BackboneShape { input: &input, features: 1 };
        let views = ViewSource { count: 1, draw: |picture: &_| vec![input.fit(picture)] };
        let whites = [255, 0, 100, 30, 255];
        let mut rows = Vec::<f32>::new();
        let each = |row: ArrayView2<'_, f32>| {
            rows.extend(row.iter());
            Ok::<(), EncodeError>(())
        };
        encode_stream(&mut pool(2), shape, whites.into_iter().map(picture), views, each).unwrap();
        for (white, row) in whites.into_iter().zip(&rows) {
            let fitted = input.fit(&picture(white));
            let alone = encode_pictures(&mut FirstNumber, &input, 1, std::slice::from_ref(&fitted)).unwrap();
            let mut parts = Vec::new();
            input.append_planes(&fitted, &mut parts);
            assert_eq!(parts.len(), 3 * 3);
            assert_eq!([*row; 1], [(parts[0] + parts[3] + 0.5 * parts[6]) / 2.5]);
            assert_eq!(alone.as_slice(), Some(&[*row][..]));
            assert_eq!(*row == 0.0, white == 0);
        }
    }

    #[test]
    fn few_jobs_are_in_progress() {
        let (mut taken, mut delivered) = (0, 0);
        let taken_now = std::cell::Cell::new(0);
        let jobs = (0..500).inspect(|_| {
            taken += 1;
            taken_now.set(taken);
        });
        let each = |_| {
            delivered += 1;
            assert!(
                taken_now.get() < delivered + 2 * 3,
                "{} jobs were taken after {delivered} results",
                taken_now.get()
            );
            Ok::<(), EncodeError>(())
        };
        map_in_order(&mut pool(3), jobs, |job: i32| job, |_, job| Ok(job), each).unwrap();
        assert_eq!((taken_now.get(), delivered), (500, 500));
    }

    #[test]
    fn errors_and_panics_end_the_stream() {
        let jobs = || (0..100).map(|number| Array4::from_elem((1, 3, 1, 1), if number == 40 { 2.0 } else { 0.5 }));
        for encoder in [&mut FirstNumber as &mut dyn Encoder, &mut pool(3)] {
            let mut delivered = 0;
            let each = |_| {
                delivered += 1;
                Ok(())
            };
            let encode = |engine: &mut dyn Encoder, job: Array4<f32>| engine.encode(job.view());
            let failed = map_in_order(encoder, jobs(), |job| job, encode, each);
            assert!(matches!(failed, Err::<(), _>(EncodeError::Run(_))) && delivered <= 40, "{delivered}");
            let stopped = map_in_order(encoder, jobs(), |job| job, encode, |_| Err(EncodeError::NotFinite));
            assert!(matches!(stopped, Err(EncodeError::NotFinite)));
            let panics = |_: &mut dyn Encoder, _: Array4<f32>| -> Result<(), EncodeError> { panic!("as it should") };
            let run =
                AssertUnwindSafe(|| map_in_order(encoder, jobs(), |job| job, panics, |()| Ok::<(), EncodeError>(())));
            assert!(catch_unwind(run).is_err());
        }
    }

    #[test]
    fn a_pool_shares_a_batch() {
        let images = Array4::from_shape_fn((7, 3, 1, 1), |(image, ..)| image as f32 / 8.0);
        let alone = FirstNumber.encode(images.view()).unwrap();
        for count in 1..10 {
            assert_eq!(pool(count).encode(images.view()).unwrap(), alone);
        }
        assert_eq!(pool(3).encode(images.slice(ndarray::s![..0, .., .., ..])).unwrap().dim(), (0, 1));
    }
}
