//! The places of a document's values: a tree with the shape of the document.

use std::collections::HashMap;

use super::Place;

/// Where a value and the values in it stand.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    /// The value's key, or the value itself in lists and at the top.
    pub(super) place: Place,
    pub(super) inner: Inner,
}

#[derive(Clone, Debug)]
pub(super) enum Inner {
    Scalar,
    List(Vec<Spot>),
    Map(HashMap<String, Spot>),
}

impl Spot {
    pub(super) fn scalar(place: Place) -> Self {
        Self {
            place,
            inner: Inner::Scalar,
        }
    }

    /// The place of the deepest value on the way to `field` that exists.
    pub(super) fn find(&self, field: &str) -> Place {
        let mut spot = self;
        let mut rest = field;
        while let Some((next, behind)) = spot.step(rest) {
            (spot, rest) = (next, behind);
        }
        spot.place
    }

    fn step<'s, 'f>(&'s self, rest: &'f str) -> Option<(&'s Self, &'f str)> {
        match &self.inner {
            Inner::Scalar => None,
            Inner::List(items) => {
                let (index, behind) = rest.strip_prefix('[')?.split_once(']')?;
                Some((items.get(index.parse::<usize>().ok()?)?, behind))
            }
            Inner::Map(entries) => {
                let rest = rest.strip_prefix('.').unwrap_or(rest);
                // Keys may have dots of their own: the longest one that fits is meant.
                let ends = rest.match_indices(['.', '[']).map(|(at, _)| at);
                let ends = ends
                    .chain([rest.len()])
                    .filter_map(|at| rest.split_at_checked(at));
                let known = |(key, behind)| entries.get(key).map(|spot| (spot, behind));
                ends.filter_map(known).next_back()
            }
        }
    }
}
