//! From the parser's events to documents.
//!
//! Invariant: no recursion, so depth costs memory only, and that is bounded; every value, each
//! expansion of an alias included, is paid from one budget.

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Value};

use super::spot::{Inner, Spot};
use super::{Diagnostic, Document, Fault, MAX_DEPTH, MAX_DIAGNOSTICS, MAX_WEIGHT, Place, scalar};

/// What every value costs besides its text: about what it takes in memory.
const VALUE_WEIGHT: usize = 64;

/// All documents of `text`.
pub(super) fn documents(file: &str, text: &str) -> Result<Vec<Document>, Vec<Diagnostic>> {
    let mut composer = Composer {
        file: Arc::from(file),
        documents: Vec::new(),
        frames: Vec::new(),
        anchors: HashMap::new(),
        budget: MAX_WEIGHT,
        diagnostics: Vec::new(),
    };
    for event in Parser::new_from_str(text) {
        let done = match event {
            Ok((event, span)) => composer.take(event, span),
            Err(error) => Err(Stop(
                place(*error.marker()),
                Fault::new("", error.info(), "correct the YAML here or just above"),
            )),
        };
        if let Err(Stop(place, fault)) = done {
            composer.report(place, fault);
            break;
        }
    }
    if composer.diagnostics.is_empty() {
        Ok(composer.documents)
    } else {
        composer.diagnostics.truncate(MAX_DIAGNOSTICS);
        Err(composer.diagnostics)
    }
}

struct Composer {
    file: Arc<str>,
    documents: Vec<Document>,
    /// Lists and mappings that are open, outermost first.
    frames: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    budget: usize,
    diagnostics: Vec<Diagnostic>,
}

/// A fault that makes the rest of the file unreadable.
struct Stop(Place, Fault);

#[derive(Clone)]
struct Node {
    value: Value,
    spot: Spot,
    weight: usize,
    /// Whether the value was a plain `<<`, which is a merge where a key is due.
    merge: bool,
}

struct Frame {
    place: Place,
    anchor: usize,
    weight: usize,
    collection: Collection,
}

enum Collection {
    List(Vec<Value>, Vec<Spot>),
    Map(Box<Mapping>),
}

#[derive(Default)]
struct Mapping {
    values: Map<String, Value>,
    spots: HashMap<String, Spot>,
    /// Entries of `<<`, which give way to the mapping's own.
    merged: Vec<(Map<String, Value>, HashMap<String, Spot>)>,
    key: Option<Key>,
}

enum Key {
    Text(String, Place),
    Merge(Place),
    /// Reported already; its value is read and dropped.
    Ignored,
}

impl Composer {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Stop> {
        let place = place(span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = match scalar::value(&text, style, tag.as_deref()) {
                    Ok(value) => value,
                    Err(fault) => {
                        self.report(place, self.at_field(fault));
                        Value::Null
                    }
                };
                let merge = style == ScalarStyle::Plain && tag.is_none() && text == "<<";
                let weight = VALUE_WEIGHT + text.len();
                self.pay(place, weight)?;
                let node = Node {
                    value,
                    spot: Spot::scalar(place),
                    weight,
                    merge,
                };
                self.add(place, anchor, node)
            }
            Event::SequenceStart(anchor, tag) => self.open(
                place,
                anchor,
                tag.as_deref(),
                "seq",
                Collection::List(vec![], vec![]),
            ),
            Event::MappingStart(anchor, tag) => self.open(
                place,
                anchor,
                tag.as_deref(),
                "map",
                Collection::Map(Box::default()),
            ),
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(id) => {
                let Some(mut node) = self.anchors.get(&id).cloned() else {
                    let fault = Fault::new("", "the alias stands inside the value it names", "");
                    return Err(Stop(place, self.at_field(fault)));
                };
                self.pay(place, node.weight)?;
                node.spot.place = place;
                self.add(place, 0, node)
            }
            Event::DocumentStart(_) => {
                self.anchors.clear();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn open(
        &mut self,
        place: Place,
        anchor: usize,
        tag: Option<&Tag>,
        own_tag: &str,
        collection: Collection,
    ) -> Result<(), Stop> {
        if let Some(tag) = tag.filter(|tag| !(tag.is_yaml_core_schema() && tag.suffix == own_tag)) {
            self.report(place, self.at_field(scalar::unknown_tag(tag)));
        }
        if self.frames.len() >= MAX_DEPTH {
            let message = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(Stop(
                place,
                self.at_field(Fault::new("", message, "flatten it")),
            ));
        }
        self.pay(place, VALUE_WEIGHT)?;
        self.frames.push(Frame {
            place,
            anchor,
            weight: VALUE_WEIGHT,
            collection,
        });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Stop> {
        let Some(Frame {
            place,
            anchor,
            weight,
            collection,
        }) = self.frames.pop()
        else {
            return Ok(());
        };
        let (value, inner) = match collection {
            Collection::List(values, spots) => (Value::Array(values), Inner::List(spots)),
            Collection::Map(mapping) => mapping.finish(),
        };
        self.add(
            place,
            anchor,
            Node {
                value,
                spot: Spot { place, inner },
                weight,
                merge: false,
            },
        )
    }

    /// Puts a complete value where it belongs.
    fn add(&mut self, place: Place, anchor: usize, node: Node) -> Result<(), Stop> {
        if anchor != 0 {
            self.pay(place, node.weight)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(frame) = self.frames.last_mut() else {
            if !node.value.is_null() {
                let file = Arc::clone(&self.file);
                self.documents.push(Document {
                    value: node.value,
                    file,
                    spot: node.spot,
                });
            }
            return Ok(());
        };
        frame.weight = frame.weight.saturating_add(node.weight);
        let reported = match &mut frame.collection {
            Collection::List(values, spots) => {
                values.push(node.value);
                spots.push(node.spot);
                None
            }
            Collection::Map(mapping) => mapping.add(place, node).err(),
        };
        if let Some(fault) = reported {
            self.report(place, self.at_field(fault));
        }
        Ok(())
    }

    fn pay(&mut self, place: Place, weight: usize) -> Result<(), Stop> {
        self.budget = self.budget.checked_sub(weight).ok_or_else(|| {
            let message = format!("with aliases expanded the file weighs more than {MAX_WEIGHT}");
            Stop(
                place,
                self.at_field(Fault::new("", message, "split the file, or use no aliases")),
            )
        })?;
        Ok(())
    }

    fn report(&mut self, place: Place, fault: Fault) {
        self.diagnostics.push(Diagnostic {
            file: self.file.to_string(),
            place: Some(place),
            fault,
        });
    }

    /// Names the field that is being read.
    fn at_field(&self, mut fault: Fault) -> Fault {
        let mut field = String::new();
        for frame in &self.frames {
            match &frame.collection {
                Collection::List(values, _) => field.push_str(&format!("[{}]", values.len())),
                Collection::Map(mapping) => {
                    if let Some(Key::Text(key, _)) = &mapping.key {
                        if !field.is_empty() {
                            field.push('.');
                        }
                        field.push_str(key);
                    }
                }
            }
        }
        if !fault.field.is_empty() && !field.is_empty() {
            field.push('.');
        }
        field.push_str(&fault.field);
        fault.field = field;
        fault
    }
}

impl Mapping {
    /// Takes a key, or the value of the last key.
    fn add(&mut self, place: Place, node: Node) -> Result<(), Fault> {
        match self.key.take() {
            None if node.merge => self.key = Some(Key::Merge(place)),
            None => {
                self.key = Some(Key::Ignored);
                let key = key_text(node.value)?;
                if let Some(first) = self.spots.get(&key) {
                    let message = format!("given twice, first on line {}", first.place.line);
                    return Err(Fault::new(key, message, "remove one of the two"));
                }
                self.key = Some(Key::Text(key, place));
            }
            Some(Key::Text(key, place)) => {
                self.spots.insert(key.clone(), Spot { place, ..node.spot });
                self.values.insert(key, node.value);
            }
            Some(Key::Merge(place)) => self.merge(place, node)?,
            Some(Key::Ignored) => {}
        }
        Ok(())
    }

    fn merge(&mut self, place: Place, node: Node) -> Result<(), Fault> {
        let fault = || {
            let message = "a merge needs a mapping or a list of mappings";
            Fault::new("<<", message, "write `<<: *anchor`")
        };
        let nodes = match (node.value, node.spot.inner) {
            (Value::Array(values), Inner::List(spots)) => values.into_iter().zip(spots).collect(),
            (value, inner) => vec![(value, Spot { place, inner })],
        };
        for node in nodes {
            let (Value::Object(values), Inner::Map(spots)) = (node.0, node.1.inner) else {
                return Err(fault());
            };
            self.merged.push((values, spots));
        }
        Ok(())
    }

    fn finish(self) -> (Value, Inner) {
        let Self {
            mut values,
            mut spots,
            merged,
            ..
        } = self;
        for (more, mut places) in merged {
            for (key, value) in more {
                if !values.contains_key(&key) {
                    if let Some(spot) = places.remove(&key) {
                        spots.insert(key.clone(), spot);
                    }
                    values.insert(key, value);
                }
            }
        }
        (Value::Object(values), Inner::Map(spots))
    }
}

fn key_text(value: Value) -> Result<String, Fault> {
    let kind = match value {
        Value::String(text) => return Ok(text),
        Value::Null => "empty".to_owned(),
        Value::Bool(_) => "a boolean (YAML reads y, n, on, off, yes and no so)".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    };
    Err(Fault::new(
        "",
        format!("a key is {kind}, not a string"),
        "put the key in quotes",
    ))
}

fn place(marker: Marker) -> Place {
    Place {
        line: marker.line().max(1),
        column: marker.col() + 1,
    }
}
