//! Features of many pictures: engines side by side, and pictures prepared while they compute. A bounded number of
//! pictures is under way, however many there are; results come in the order of the pictures.

use std::collections::BTreeMap;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use ::image::RgbImage;
use ndarray::{Array2, ArrayView2, ArrayView4, Axis, concatenate};

use super::{EncodeError, Encoder, batch, encode_planes, planes};
use crate::image::Preprocessing;

/// Engines with the same backbone that compute side by side, each on its own share of the processor's cores.
///
/// Small batches on one core each take less time together than one batch after the other on all of them.
pub struct EncoderPool {
    members: Vec<Box<dyn Encoder>>,
}

impl EncoderPool {
    /// A team of at least one.
    pub fn new(first: Box<dyn Encoder>, others: Vec<Box<dyn Encoder>>) -> Self {
        Self { members: iter::once(first).chain(others).collect() }
    }
}

impl Encoder for EncoderPool {
    fn engine(&self) -> String {
        self.members[0].engine()
    }

    /// Every member takes some of the images.
    fn encode(&mut self, images: ArrayView4<'_, f32>) -> Result<Array2<f32>, EncodeError> {
        let each = images.dim().0.div_ceil(self.members.len()).max(1);
        let parts = images.axis_chunks_iter(Axis(0), each);
        if parts.len() < 2 {
            return self.members[0].encode(images);
        }
        let mut rows = Vec::new();
        in_order(
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

/// Computes features of a stream of pictures: `draw` makes `views` pictures of the input's size out of each, beside the
/// engines, and `each` is told of every picture's features, `[views, features]`, one picture after the other.
///
/// Pictures go through an engine in batches of [`batch`] pictures, or of one picture's views if these are more. ONNX
/// Runtime gives the shipped backbones' features bit for bit alike in any batch; a layer whose sums it orders by the
/// batch's size, as it may for a matrix product, would differ by rounding. An error ends the stream.
///
/// # Errors
/// [`EncodeError`] if the engine fails or returns something else, and what `each` returns.
pub fn encode_stream<E: From<EncodeError>>(
    encoder: &mut dyn Encoder,
    (input, features): (&Preprocessing, usize),
    mut pictures: impl Iterator<Item = RgbImage>,
    (views, draw): (usize, impl Fn(&RgbImage) -> Vec<RgbImage> + Sync),
    mut each: impl FnMut(ArrayView2<'_, f32>) -> Result<(), E>,
) -> Result<(), E> {
    let together = (batch(input) / views.max(1)).max(1);
    let jobs = iter::from_fn(|| {
        let job: Vec<RgbImage> = pictures.by_ref().take(together).collect();
        (!job.is_empty()).then_some(job)
    });
    let prepare = |job: Vec<RgbImage>| {
        let drawn: Vec<RgbImage> = job.iter().flat_map(&draw).collect();
        planes(input, &drawn)
    };
    in_order(
        encoder,
        jobs,
        prepare,
        |engine, planes| encode_planes(engine, input, features, planes.view()),
        |rows| rows.axis_chunks_iter(Axis(0), views.max(1)).try_for_each(&mut each),
    )
}

/// Has an encoder's members do jobs side by side: `prepare` runs beside them, `encode` on one of them, and `each` is
/// told of the results in the order of the jobs. An encoder without members does one job while the next is prepared.
/// Jobs are taken from `jobs`, on the caller's thread, only as they are needed: twice as many as there are threads are
/// under way.
///
/// # Errors
/// The first that `encode` or `each` returns.
pub fn in_order<J: Send, P, R: Send, E: From<EncodeError>>(
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
            let run = move || {
                while let Some((number, job)) = next(waiting) {
                    // A panic is the caller's, who would wait for the result otherwise.
                    let result = catch_unwind(AssertUnwindSafe(|| work(engine, job)));
                    if done.send((number, result)).is_err() {
                        return;
                    }
                }
            };
            workers += usize::from(thread::Builder::new().name("features".into()).spawn_scoped(scope, run).is_ok());
        }
        drop(done);
        if workers == 0 {
            log::warn!("no thread can be started, so features are computed on one");
            return jobs.try_for_each(|job| each(work(&engines[0], job)?));
        }
        let (mut sent, mut told) = (0, 0);
        let mut early = BTreeMap::new();
        loop {
            for job in jobs.by_ref().take(2 * workers - (sent - told)) {
                to_workers.send((sent, job)).expect("the receiver is above");
                sent += 1;
            }
            if told == sent {
                return Ok(());
            }
            let (number, result) = results.recv().expect("workers answer every job");
            early.insert(number, result.unwrap_or_else(|panic| resume_unwind(panic))?);
            while let Some(result) = early.remove(&told) {
                told += 1;
                each(result)?;
            }
        }
    })
}

/// The next job; none once there will be none.
fn next<J>(waiting: &Mutex<Receiver<J>>) -> Option<J> {
    lock(waiting).recv().ok()
}

/// What a lock holds, also where a job has panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use ndarray::Array4;

    use super::*;

    const INPUT: Preprocessing = Preprocessing { width: 1, height: 1, mean: [0.0; 3], deviation: [1.0; 3] };

    /// An engine whose one feature is the first number of an image; it fails on a number above 1.
    struct First;

    impl Encoder for First {
        fn engine(&self) -> String {
            "first".into()
        }

        fn encode(&mut self, images: ArrayView4<'_, f32>) -> Result<Array2<f32>, EncodeError> {
            let rows = Array2::from_shape_fn((images.dim().0, 1), |(row, _)| images[[row, 0, 0, 0]]);
            let fails = rows.iter().any(|value| *value > 1.0);
            if fails { Err(EncodeError::Run("above 1".into())) } else { Ok(rows) }
        }
    }

    fn team(count: usize) -> EncoderPool {
        EncoderPool::new(Box::new(First), (1..count).map(|_| Box::new(First) as Box<dyn Encoder>).collect())
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
            encode_stream(encoder, (&INPUT, 1), pictures(1000), (2, draw), each).unwrap();
            rows
        };
        let expected: Vec<f32> = (0..1000).flat_map(|number| [(number % 251) as f32 / 255.0, 1.0]).collect();
        assert_eq!(streamed(&mut First), expected);
        assert_eq!(streamed(&mut team(1)), expected);
        assert_eq!(streamed(&mut team(5)), expected);
    }

    #[test]
    fn few_jobs_are_under_way() {
        let (mut taken, mut told) = (0, 0);
        let taken_now = std::cell::Cell::new(0);
        let jobs = (0..500).inspect(|_| {
            taken += 1;
            taken_now.set(taken);
        });
        let each = |_| {
            told += 1;
            assert!(taken_now.get() < told + 2 * 3, "{} jobs were taken after {told} results", taken_now.get());
            Ok::<(), EncodeError>(())
        };
        in_order(&mut team(3), jobs, |job: i32| job, |_, job| Ok(job), each).unwrap();
        assert_eq!((taken_now.get(), told), (500, 500));
    }

    #[test]
    fn errors_and_panics_end_the_stream() {
        let jobs = || (0..100).map(|number| Array4::from_elem((1, 3, 1, 1), if number == 40 { 2.0 } else { 0.5 }));
        for encoder in [&mut First as &mut dyn Encoder, &mut team(3)] {
            let mut told = 0;
            let each = |_| {
                told += 1;
                Ok(())
            };
            let encode = |engine: &mut dyn Encoder, job: Array4<f32>| engine.encode(job.view());
            let failed = in_order(encoder, jobs(), |job| job, encode, each);
            assert!(matches!(failed, Err::<(), _>(EncodeError::Run(_))) && told <= 40, "{told}");
            let stopped = in_order(encoder, jobs(), |job| job, encode, |_| Err(EncodeError::NotFinite));
            assert!(matches!(stopped, Err(EncodeError::NotFinite)));
            let panics = |_: &mut dyn Encoder, _: Array4<f32>| -> Result<(), EncodeError> { panic!("as it should") };
            let run = AssertUnwindSafe(|| in_order(encoder, jobs(), |job| job, panics, |()| Ok::<(), EncodeError>(())));
            assert!(catch_unwind(run).is_err());
        }
    }

    #[test]
    fn a_team_shares_a_batch() {
        let images = Array4::from_shape_fn((7, 3, 1, 1), |(image, ..)| image as f32 / 8.0);
        let alone = First.encode(images.view()).unwrap();
        for count in 1..10 {
            assert_eq!(team(count).encode(images.view()).unwrap(), alone);
        }
        assert_eq!(team(3).encode(images.slice(ndarray::s![..0, .., .., ..])).unwrap().dim(), (0, 1));
    }
}
