use serde_json::json;

use super::*;
use crate::snapshot::ClusterState;

fn candidate(name: &str, hosts: &[&str], created: i64) -> Candidate {
    let key = ClusterKey::new("team", name);
    let mut config = ClusterConfig::without_upstream(key, Vec::new(), ClusterState::Serving);
    config.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    Candidate {
        config: Arc::new(config),
        notices: vec![format!("notice of {name}")],
        unsupported: Vec::new(),
        created,
    }
}

fn run(previous: &Snapshot, files: &[Candidate], objects: &[Candidate]) -> (Snapshot, Outcomes) {
    merge(previous, files, objects, &|key| json!({ "path": key.name }))
}

#[test]
fn a_file_wins_over_an_object_of_the_same_name() {
    let files = [candidate("a", &["file.example.com"], 0)];
    let objects = [
        candidate("a", &["object.example.com"], 1),
        candidate("b", &[], 2),
    ];
    let (snapshot, outcomes) = run(&Snapshot::default(), &files, &objects);
    let key = ClusterKey::new("team", "a");
    assert!(Arc::ptr_eq(&snapshot.clusters[&key], &files[0].config));
    assert!(!outcomes[&key].exposed);
    assert!(
        outcomes[&key]
            .error
            .as_ref()
            .unwrap()
            .contains("a file of the gateway")
    );
    let other = &outcomes[&ClusterKey::new("team", "b")];
    assert!(other.exposed && other.error.is_none());
    assert_eq!(
        (other.notices.as_slice(), &other.observed),
        (&["notice of b".to_owned()][..], &json!({ "path": "b" }))
    );
}

#[test]
fn a_host_name_cannot_be_taken_away() {
    let files = [candidate("z", &["file.example.com"], 0)];
    let objects = [
        candidate("a", &["x.example.com"], 9),
        candidate("b", &["x.example.com", "y.example.com"], 3),
        candidate("c", &["file.example.com"], 1),
        candidate("d", &["y.example.com"], 3),
    ];
    let (snapshot, outcomes) = run(&Snapshot::default(), &files, &objects);
    let served: Vec<_> = snapshot
        .clusters
        .values()
        .filter(|c| c.state == ClusterState::Serving)
        .map(|c| c.key.name.as_str())
        .collect();
    assert_eq!(served, ["b", "z"]);
    let error = outcomes[&ClusterKey::new("team", "c")]
        .error
        .clone()
        .unwrap();
    assert_eq!(
        error,
        "spec.hosts: file.example.com is a host name of another cluster; use another"
    );
    assert!(
        snapshot.clusters[&ClusterKey::new("team", "a")]
            .hosts
            .is_empty()
    );
}

#[test]
fn a_cluster_that_did_not_change_is_the_same_one() {
    let first = [candidate("a", &[], 0), candidate("b", &[], 0)];
    let (before, _) = run(&Snapshot::default(), &first, &[]);
    let again = [
        candidate("a", &[], 0),
        candidate("b", &["b.example.com"], 0),
    ];
    let (after, _) = run(&before, &again, &[]);
    let same = |name: &str| {
        let key = ClusterKey::new("team", name);
        Arc::ptr_eq(&before.clusters[&key], &after.clusters[&key])
    };
    assert!(same("a") && !same("b"));
}

#[test]
fn a_refused_object_says_why() {
    let mut refused = candidate("a", &[], 0);
    let state = ClusterState::Refused {
        reason: "no reason".to_owned(),
    };
    refused.config = Arc::new(ClusterConfig {
        state,
        ..(*refused.config).clone()
    });
    let disabled = Candidate {
        config: Arc::new(ClusterConfig::without_upstream(
            ClusterKey::new("team", "b"),
            Vec::new(),
            ClusterState::Disabled,
        )),
        ..candidate("b", &[], 0)
    };
    let (_, outcomes) = run(&Snapshot::default(), &[], &[refused, disabled]);
    let of = |name: &str| outcomes[&ClusterKey::new("team", name)].clone();
    assert_eq!(
        (of("a").exposed, of("a").error.as_deref()),
        (false, Some("no reason"))
    );
    assert_eq!((of("b").exposed, of("b").error), (false, None));
}

#[test]
fn a_cluster_that_is_out_of_order_keeps_its_host_names() {
    let old = |state| {
        let candidate = candidate("z", &["x.example.com"], 1);
        let config = ClusterConfig {
            state,
            ..(*candidate.config).clone()
        };
        Candidate {
            config: Arc::new(config),
            ..candidate
        }
    };
    let new = candidate("a", &["x.example.com"], 2);
    let reason = "the Secret is missing".to_owned();
    for state in [ClusterState::Disabled, ClusterState::Refused { reason }] {
        let (snapshot, outcomes) = run(&Snapshot::default(), &[], &[new.clone(), old(state)]);
        assert!(!outcomes[&ClusterKey::new("team", "a")].exposed);
        assert_eq!(
            snapshot.clusters[&ClusterKey::new("team", "z")].hosts,
            ["x.example.com"]
        );
    }
    // The other way round, what is wrong in itself keeps its reason.
    let broken = Candidate::refused(
        ClusterKey::new("team", "b"),
        vec!["x.example.com".to_owned()],
        "own".to_owned(),
    );
    let (snapshot, _) = run(
        &Snapshot::default(),
        &[],
        &[
            old(ClusterState::Serving),
            Candidate {
                created: 5,
                ..broken
            },
        ],
    );
    let config = &snapshot.clusters[&ClusterKey::new("team", "b")];
    assert_eq!(
        config.state,
        ClusterState::Refused {
            reason: "own".to_owned()
        }
    );
    assert!(config.hosts.is_empty());
}
