//! Selects the parts of a picture that are classified or learned: regions, and things in front of the background.

use std::sync::Arc;

use ::image::RgbImage;

use super::background::{Background, ComparedFrame, FrameSizeError};
use super::cut_out::square;
use super::foreground::Thing;
use super::place_fit::PlaceFit;
use super::region::{NamedRegion, PixelRect, RegionError};
use super::viewed_picture::ViewedPicture;
use crate::image::Preprocessing;

/// Selects the parts of every picture of a camera that are classified or learned: [regions](super::Region), and things
/// in front of the background. Use the same one for shots and for answers.
///
/// ```
/// use orco_runtime::bundle::Bundle;
/// use orco_runtime::image_rs::RgbImage;
/// use orco_runtime::scene::Viewfinder;
///
/// let bundle = Bundle::open("../models/cifar100-edge")?;
/// let shelf = Viewfinder::new(&bundle.manifest.preprocessing, None, vec!["upper=0,0,1,0.5".parse()?]);
/// let views = shelf.views(&RgbImage::new(640, 480))?;
/// assert_eq!((&*views[0].name, views[0].things[0].bounds.height), ("upper", 240));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Viewfinder {
    /// The background, if the camera was shown its empty place.
    pub background: Option<Arc<Background>>,
    /// The regions; where there is none, things are looked for in all of the picture.
    pub regions: Vec<NamedRegion>,
    /// The colour of what is no part of a thing. [`Viewfinder::new`] takes the one that the backbone sees as zero; the
    /// default, black, is for programs that have no bundle.
    pub fill: [u8; 3],
}

/// What a region of a picture shows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegionView {
    /// The region's name; empty if it has none.
    pub name: String,
    /// The region, in pixels of the picture's file.
    pub bounds: PixelRect,
    /// The things in front of the background, the largest first; none if the place is empty. Without a background, the
    /// region as a whole.
    pub things: Vec<ThingView>,
    /// How well the background is found in the picture.
    pub fit: PlaceFit,
}

/// What is learned of a picture.
pub(crate) struct ShotView {
    /// The thing alone, for the backbone.
    pub picture: RgbImage,
    /// As [`RegionView::fit`].
    pub fit: PlaceFit,
}

/// One thing in a picture.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThingView {
    /// Where it is, in pixels of the picture's file.
    pub bounds: PixelRect,
    /// The thing alone, for the backbone.
    pub picture: RgbImage,
}

/// Why a picture does not fit a viewfinder.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The background was learned in another size.
    #[error(transparent)]
    Size(#[from] FrameSizeError),
    /// A region does not fit the picture.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The picture is to be a shot, and nothing is there.
    #[error("it shows the empty place: put the thing in view")]
    Empty,
}

impl Viewfinder {
    /// One for a bundle's backbone: what is no part of a thing becomes zero.
    pub fn new(input: &Preprocessing, background: Option<Background>, regions: Vec<NamedRegion>) -> Self {
        Self { background: background.map(Arc::new), regions, fill: input.mean_colour() }
    }

    /// Whether it leaves pictures as they are.
    pub fn is_plain(&self) -> bool {
        self.background.is_none() && self.regions.is_empty()
    }

    /// What each region of a picture shows, or the whole picture where there are no regions.
    ///
    /// # Errors
    /// [`ViewError`] if the background or a region does not fit the picture.
    pub fn views<'a>(&self, picture: impl Into<ViewedPicture<'a>>) -> Result<Vec<RegionView>, ViewError> {
        let picture = picture.into();
        let [width, height] = picture.size_in_file;
        let bounds = |named: &NamedRegion| named.region.in_frame(width, height);
        let bounds = self.regions.iter().map(bounds).collect::<Result<Vec<_>, _>>()?;
        let compared =
            self.background.as_ref().map(|background| background.compare_frame(picture.picture)).transpose()?;
        let compared = compared.as_ref();
        bounds.iter().try_for_each(|region| self.check_region(picture, *region))?;
        if self.regions.is_empty() {
            return Ok(vec![self.view(picture, compared, String::new(), None)]);
        }
        let views = self.regions.iter().zip(bounds);
        Ok(views.map(|(named, bounds)| self.view(picture, compared, named.name.clone(), Some(bounds))).collect())
    }

    /// The thing in the middle of a picture, or of its first region, as a shot of it.
    ///
    /// # Errors
    /// As for [`Viewfinder::views`], and [`ViewError::Empty`] if nothing is there.
    pub fn shot<'a>(&self, picture: impl Into<ViewedPicture<'a>>) -> Result<RgbImage, ViewError> {
        Ok(self.shot_view(picture.into())?.picture)
    }

    /// As [`Viewfinder::shot`], with how much of the background is found.
    pub(crate) fn shot_view(&self, picture: ViewedPicture<'_>) -> Result<ShotView, ViewError> {
        let [width, height] = picture.size_in_file;
        let region = self.regions.first().map(|named| named.region.in_frame(width, height)).transpose()?;
        let around = region.unwrap_or(PixelRect::whole(picture.size_in_file));
        self.shot_of(picture, region, around.middle())
    }

    /// The thing at a place of a picture, in shares of its sides, or the nearest one, as a shot of it. It is looked for
    /// in the region that holds the place, or else in the first one.
    ///
    /// # Errors
    /// As for [`Viewfinder::shot`]; other regions may be what they like.
    pub fn shot_at<'a>(&self, picture: impl Into<ViewedPicture<'a>>, place: [f32; 2]) -> Result<RgbImage, ViewError> {
        let picture = picture.into();
        let size @ [width, height] = picture.size_in_file;
        let pixel =
            [0, 1].map(|axis| ((place[axis].clamp(0.0, 1.0) * size[axis] as f32) as u32).min(size[axis].max(1) - 1));
        let holds_place = |named: &&NamedRegion| named.region.pixels_in(width, height).contains(pixel);
        let named = self.regions.iter().find(holds_place).or(self.regions.first());
        let region = named.map(|named| named.region.in_frame(width, height)).transpose()?;
        Ok(self.shot_of(picture, region, pixel)?.picture)
    }

    /// The thing nearest to a pixel in a region of a picture, both in pixels of the file.
    fn shot_of(
        &self,
        viewed: ViewedPicture<'_>,
        region: Option<PixelRect>,
        [x, y]: [u32; 2],
    ) -> Result<ShotView, ViewError> {
        let in_picture = region.map(|region| viewed.in_picture(region));
        let Some(background) = &self.background else {
            return Ok(ShotView { picture: self.whole(viewed.picture, in_picture), fit: PlaceFit::WHOLE });
        };
        let foreground = background.compare(viewed.picture, in_picture)?;
        region.map_or(Ok(()), |region| self.check_region(viewed, region))?;
        let place = viewed.in_picture(PixelRect { x, y, width: 1, height: 1 });
        let thing = foreground.at(place.x, place.y).ok_or(ViewError::Empty)?;
        Ok(ShotView { picture: foreground.cut_out(viewed.picture, thing, self.fill), fit: foreground.fit() })
    }

    /// Checks a region, in pixels of the file, of a picture that has the size of the background.
    fn check_region(&self, viewed: ViewedPicture<'_>, region: PixelRect) -> Result<(), RegionError> {
        self.background.as_ref().map_or(Ok(()), |background| background.check_region(viewed.size_in_file, region))
    }

    /// What a region, in pixels of the file, shows; `compared` is the picture beside the background, if there is one.
    fn view(
        &self,
        viewed: ViewedPicture<'_>,
        compared: Option<&ComparedFrame>,
        name: String,
        region: Option<PixelRect>,
    ) -> RegionView {
        let bounds = region.unwrap_or(PixelRect::whole(viewed.size_in_file));
        let region = region.map(|region| viewed.in_picture(region));
        let Some(compared) = compared else {
            let things = vec![ThingView { bounds, picture: self.whole(viewed.picture, region) }];
            return RegionView { name, bounds, things, fit: PlaceFit::WHOLE };
        };
        let foreground = compared.foreground(region);
        let view = |thing: &Thing| ThingView {
            bounds: viewed.in_file(thing.bounds),
            picture: foreground.cut_out(viewed.picture, thing, self.fill),
        };
        let things = foreground.things().iter().map(view).collect();
        RegionView { name, bounds, things, fit: foreground.fit() }
    }

    /// A region as a square; without one the picture as it is, of which the backbone sees the largest square.
    fn whole(&self, picture: &RgbImage, region: Option<PixelRect>) -> RgbImage {
        region.map_or_else(|| picture.clone(), |region| square(picture, region, self.fill))
    }
}
