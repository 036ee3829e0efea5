//! An API server of few words: lists and watches of namespaced objects, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The server.
pub(super) struct FakeCluster {
    state: Mutex<State>,
    version: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<(String, String), Value>,
    /// Each change, with its resource; its version is its position plus one.
    events: Vec<(String, Value)>,
    forbidden: BTreeSet<String>,
    asked: Vec<String>,
}

impl FakeCluster {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            version: watch::channel(0).0,
        })
    }

    pub(super) fn client(self: &Arc<Self>) -> Client {
        let own = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = own.answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        Client::new(service, "default")
    }

    pub(super) fn put(&self, resource: &str, mut object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.change(resource, &name, |state, version| {
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            let old = state
                .objects
                .insert((resource.to_owned(), name.clone()), object.clone());
            json!({ "type": if old.is_some() { "MODIFIED" } else { "ADDED" }, "object": object })
        });
    }

    pub(super) fn delete(&self, resource: &str, name: &str) {
        self.change(resource, name, |state, version| {
            let mut object = state
                .objects
                .remove(&(resource.to_owned(), name.to_owned()))
                .unwrap();
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            json!({ "type": "DELETED", "object": object })
        });
    }

    fn change(&self, resource: &str, _: &str, change: impl FnOnce(&mut State, usize) -> Value) {
        let mut state = self.state.lock().unwrap();
        let version = state.events.len() + 1;
        let event = change(&mut state, version);
        state.events.push((resource.to_owned(), event));
        self.version.send_replace(version);
    }

    /// Answers 403 to everything about `resource`.
    pub(super) fn forbid(&self, resource: &str) {
        self.state
            .lock()
            .unwrap()
            .forbidden
            .insert(resource.to_owned());
    }

    /// The paths of all requests.
    pub(super) fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    fn answer(self: &Arc<Self>, request: &Request<Body>) -> Answer {
        let path = request.uri().path();
        let resource = path.rsplit('/').next().unwrap().to_owned();
        let query: BTreeMap<_, _> =
            url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect();
        let mut state = self.state.lock().unwrap();
        state.asked.push(path.to_owned());
        if state.forbidden.contains(&resource) {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403 });
            return full(403, &status);
        }
        let wanted = query
            .get("fieldSelector")
            .and_then(|f| f.strip_prefix("metadata.name="))
            .map(str::to_owned);
        let fits = move |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        if query.contains_key("watch") {
            let from = query["resourceVersion"].parse().unwrap();
            drop(state);
            return self.watch(resource, from, fits);
        }
        let items: Vec<_> = state
            .objects
            .iter()
            .filter(|((r, name), _)| *r == resource && fits(name))
            .map(|(_, object)| object)
            .collect();
        let version = state.events.len().to_string();
        full(
            200,
            &json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": version }, "items": items }),
        )
    }

    fn watch(
        self: &Arc<Self>,
        resource: String,
        from: usize,
        fits: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Answer {
        let (own, version) = (Arc::clone(self), self.version.subscribe());
        let events = stream::unfold(
            (own, version, from, fits),
            move |(own, mut version, mut at, fits)| {
                let resource = resource.clone();
                async move {
                    loop {
                        version.wait_for(|version| *version > at).await.ok()?;
                        let event = own.state.lock().unwrap().events[at].clone();
                        at += 1;
                        let name = event.1["object"]["metadata"]["name"].as_str().unwrap();
                        if event.0 == resource && fits(name) {
                            let line = Bytes::from(format!("{}\n", event.1));
                            return Some((
                                Ok(http_body::Frame::data(line)),
                                (own, version, at, fits),
                            ));
                        }
                    }
                }
            },
        );
        Response::new(StreamBody::new(events).boxed_unsync())
    }
}

fn full(code: u16, value: &Value) -> Answer {
    let body = Full::new(Bytes::from(value.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}
