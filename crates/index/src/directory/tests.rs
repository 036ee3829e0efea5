use std::os::unix::fs::symlink;

use rstest::rstest;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::snapshot::{ClusterState, Trust};

fn cluster(name: &str, more: &str) -> String {
    format!(
        "apiVersion: weebo.si.rs/v1\nkind: ProxyKubeApi\nmetadata: {{name: {name}, namespace: team}}\n\
         spec:\n  cert: {{SystemRoots: true}}\n  service: {{ExternalService: {{url: 'https://{name}.example.com'}}}}\n{more}"
    )
}

fn folder(files: &[(&str, String)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The faults, without the folder's own path.
fn faults(folder: &TempDir) -> Vec<String> {
    let own = format!("{}/", folder.path().display());
    let found = load(folder.path(), false).unwrap_err();
    found
        .iter()
        .map(|f| f.to_string().replace(&own, ""))
        .collect()
}

fn keys(folder: &TempDir) -> Vec<String> {
    load(folder.path(), false)
        .unwrap()
        .iter()
        .map(|c| c.config.key.to_string())
        .collect()
}

#[test]
fn all_documents_of_all_files_are_read_in_order() {
    let folder = folder(&[
        ("b.yml", cluster("b", "")),
        ("a.yaml", format!("{}---\n{}", cluster("z", ""), cluster("x", ""))),
        ("c.json", json!({
            "apiVersion": "weebo.si.rs/v1", "kind": "ProxyKubeApi", "metadata": { "name": "c" },
            "spec": { "enabled": false, "cert": { "Insecure": true }, "service": { "ExternalService": { "url": "https://c" } } },
        }).to_string()),
        ("notes.txt", "not: [yaml".to_owned()),
        (".hidden.yaml", "not: [yaml".to_owned()),
    ]);
    fs::create_dir(folder.path().join("deeper")).unwrap();
    fs::write(folder.path().join("deeper/d.yaml"), "not: [yaml").unwrap();
    assert_eq!(keys(&folder), ["team/z", "team/x", "team/b", "default/c"]);
    let found = load(folder.path(), false).unwrap();
    assert_eq!(found[3].config.state, ClusterState::Disabled);
}

#[test]
fn an_empty_folder_is_a_good_one() {
    assert!(keys(&folder(&[])).is_empty());
}

#[test]
fn secrets_and_config_maps_of_other_files_are_found() {
    let authority = rcgen::generate_simple_self_signed(["ca".to_owned()])
        .unwrap()
        .cert
        .pem();
    let object = |kind: &str, field: &str| {
        json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "x", "namespace": "team" }, field: { "ca": authority } }).to_string()
    };
    let with = |cert: &str| cluster("a", "").replace("{SystemRoots: true}", cert);
    let folder = folder(&[
        ("a.yaml", with("{Secret: {name: x, key: ca}}")),
        (
            "b.yaml",
            with("{ConfigMap: {name: x, key: ca}}").replace("name: a,", "name: b,"),
        ),
        ("z1.json", object("Secret", "stringData")),
        ("z2.json", object("ConfigMap", "data")),
    ]);
    for candidate in load(folder.path(), false).unwrap() {
        assert_eq!(
            candidate.config.upstream.trust,
            Trust::Pem(authority.clone().into_bytes())
        );
    }
}

#[test]
fn one_fault_refuses_all_and_every_fault_is_named() {
    let folder = folder(&[
        ("a.yaml", cluster("a", "  hosst: []\n")),
        ("b.yaml", cluster("b", "  hosts: [B]\n")),
        ("c.yaml", cluster("good", "")),
        ("d.yaml", "a: 1\na: 2\n".to_owned()),
        ("e.yaml", "apiVersion: v1\nkind: Pod\n".to_owned()),
        (
            "f.yaml",
            "apiVersion: portcullis.dev/v1alpha1\nkind: GatewayConfiguration\n".to_owned(),
        ),
        ("g.yaml", "just text".to_owned()),
        (
            "h.yaml",
            "kind: Secret\napiVersion: v1\nmetadata: {name: s}\ndata: {k: s3cret!}\n".to_owned(),
        ),
        (
            "i.yaml",
            cluster("i", "").replace("{SystemRoots: true}", "{Secret: {name: none, key: k}}"),
        ),
    ]);
    let known = "known here: ProxyKubeApi of weebo.si.rs/v1, Secret and ConfigMap of v1";
    let found = faults(&folder);
    assert!(
        found[0].starts_with("a.yaml:7:3: spec.hosst: unknown field; known here: `enabled`"),
        "{found:#?}"
    );
    assert_eq!(found[1..], [
        "d.yaml:2:1: a: given twice, first on line 1; remove one of the two".to_owned(),
        format!("e.yaml:2:1: kind: this kind has no meaning here; {known}"),
        format!("f.yaml:2:1: kind: this kind has no meaning here; {known}"),
        format!("g.yaml:1:1: kind: is required; {known}"),
        "h.yaml:4:8: data.k: is not base64; encode it, or put the text under stringData".to_owned(),
        "b.yaml:7:11: spec.hosts[0]: is no host name; write an exact lower-case DNS name without port".to_owned(),
        "i.yaml:5:19: spec.cert.Secret.name: no file holds the Secret team/none; create the Secret, or name another".to_owned(),
    ]);
}

#[rstest]
#[case(
    cluster("a", ""),
    cluster("a", ""),
    "b.yaml:3:12: metadata.name: another ProxyKubeApi of this name stands at a.yaml:3; remove one of the two"
)]
#[case(
    cluster("a", "  hosts: [h.example.com]\n"),
    cluster("b", "  hosts: [g.example.com, h.example.com]\n"),
    "b.yaml:7:26: spec.hosts[1]: is a host name of team/a too; remove one of the two"
)]
fn names_are_given_once(#[case] a: String, #[case] b: String, #[case] expected: &str) {
    assert_eq!(faults(&folder(&[("a.yaml", a), ("b.yaml", b)])), [expected]);
}

#[test]
fn links_are_followed_and_loops_are_refused() {
    let target = folder(&[("real", cluster("a", ""))]);
    let folder = folder(&[]);
    symlink(target.path().join("real"), folder.path().join("a.yaml")).unwrap();
    assert_eq!(keys(&folder), ["team/a"]);
    symlink(
        folder.path().join("loop.yaml"),
        folder.path().join("loop.yaml"),
    )
    .unwrap();
    let found = faults(&folder);
    assert!(
        found.len() == 1 && found[0].starts_with("loop.yaml: cannot be read: "),
        "{found:?}"
    );
}

#[test]
fn only_files_are_read() {
    let folder = folder(&[]);
    fs::create_dir(folder.path().join("a.yaml")).unwrap();
    assert_eq!(
        faults(&folder),
        ["a.yaml: is no file; remove it from the folder"]
    );
}

#[test]
fn a_file_may_have_so_many_bytes_and_no_more() {
    let padded = |size: usize| {
        let text = cluster("a", "# ");
        format!("{text}{}", "x".repeat(size - text.len()))
    };
    let folder = folder(&[("a.yaml", padded(MAX_BYTES))]);
    assert_eq!(keys(&folder), ["team/a"]);
    fs::write(folder.path().join("a.yaml"), padded(MAX_BYTES + 1)).unwrap();
    assert_eq!(
        faults(&folder),
        ["a.yaml: the file has 4194305 bytes, more than 4194304; split it into several files"]
    );
}

#[test]
fn a_folder_may_have_so_many_files_and_no_more() {
    let folder = folder(&[]);
    for n in 0..MAX_FILES {
        fs::write(folder.path().join(format!("{n}.yaml")), "").unwrap();
    }
    assert!(load(folder.path(), false).is_ok());
    fs::write(folder.path().join("more.yaml"), "").unwrap();
    assert!(
        load(folder.path(), false).unwrap_err()[0]
            .to_string()
            .contains("more than 4096 files")
    );
}

#[test]
fn a_missing_folder_is_a_fault() {
    let found = load(Path::new("/nowhere/at/all"), false).unwrap_err();
    assert!(
        found[0]
            .to_string()
            .starts_with("/nowhere/at/all: the folder cannot be read: ")
    );
}
