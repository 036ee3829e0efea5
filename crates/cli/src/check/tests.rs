use std::fs;

use rstest::rstest;
use serde_json::Value;
use tempfile::TempDir;

use super::*;

const CLUSTER: &str = "apiVersion: weebo.si.rs/v1
kind: ProxyKubeApi
metadata: {name: a, namespace: team}
spec:
  cert: {SystemRoots: true}
  service: {ExternalService: {url: 'https://api.example.com'}}
";
const GATEWAY: &str = "apiVersion: portcullis.dev/v1alpha1
kind: GatewayConfiguration
listen: {tls: {certFile: tls.crt, keyFile: tls.key}}
resources: {directory: clusters}
";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Exit code and output, with the folder's own path replaced by `.`.
fn run(folder: &TempDir, paths: &[&str], output: Output) -> (u8, String) {
    let paths: Vec<_> = paths.iter().map(|path| folder.path().join(path)).collect();
    let mut out = Vec::new();
    let code = check(&paths, output, &mut out);
    let text = String::from_utf8(out).unwrap();
    (code, text.replace(folder.path().to_str().unwrap(), "."))
}

#[test]
fn a_good_installation_passes() {
    let folder = folder(&[
        ("gateway.yaml", GATEWAY),
        ("tls.crt", ""),
        ("tls.key", ""),
        ("clusters/a.yaml", CLUSTER),
        ("clusters/readme.md", "not read"),
    ]);
    let summary = "0 errors, 0 warnings; 1 cluster, 1 gateway configuration, 2 files\n";
    for paths in [&["gateway.yaml"][..], &["gateway.yaml", "clusters"], &["."]] {
        assert_eq!(
            run(&folder, paths, Output::Table),
            (PASS, summary.to_owned()),
            "{paths:?}"
        );
    }
}

#[test]
fn every_fault_of_every_file_is_printed() {
    let folder = folder(&[
        ("gateway.yaml", &GATEWAY.replace("tls.key", "none.key")),
        ("tls.crt", ""),
        ("clusters/a.yaml", &CLUSTER.replace("cert:", "crt:")),
        ("clusters/b.yaml", &CLUSTER.replace("https", "http")),
        ("clusters/c.yaml", "kind: Pod\n"),
    ]);
    let (code, text) = run(&folder, &["gateway.yaml"], Output::Table);
    assert_eq!(code, LOAD_ERROR);
    let lines: Vec<_> = text.lines().collect();
    let starts = [
        "error: ./gateway.yaml:3:35: listen.tls.keyFile: ./none.key cannot be read: ",
        "error: ./clusters/a.yaml:5:3: spec.crt: unknown field; known here: ",
        "error: ./clusters/a.yaml:4:1: spec.cert: is required; add it",
        "error: ./clusters/c.yaml:1:1: kind: this kind has no meaning here; known here: ",
        "error: ./clusters/b.yaml:6:31: spec.service.ExternalService.url: is not https; ",
        "5 errors, 0 warnings; 0 clusters, 1 gateway configuration, 1 file",
    ];
    assert_eq!(lines.len(), starts.len(), "{text}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}\nis not\n{start}");
    }
}

#[test]
fn what_has_no_effect_is_a_warning_at_its_place() {
    let more =
        "  dashboard_group: g\n  virtual_apis:\n  - kind: OpenShiftProject\n    enabled: true\n";
    let folder = folder(&[("a.yaml", &format!("{CLUSTER}{more}"))]);
    let (code, text) = run(&folder, &["a.yaml"], Output::Table);
    assert_eq!(code, PASS);
    let expected = "warning: ./a.yaml:10:5: not supported yet: spec.virtual_apis[0].enabled; set it to false\n\
        warning: ./a.yaml:7:3: spec.dashboard_group has no effect: there is no dashboard in this version; \
        set spec.proxy_group to say who may use the cluster\n\
        0 errors, 2 warnings; 1 cluster, 0 gateway configurations, 1 file\n";
    assert_eq!(text, expected);
}

#[rstest]
#[case(Output::Json)]
#[case(Output::Yaml)]
fn programs_get_the_same_facts(#[case] output: Output) {
    let folder = folder(&[("a.yaml", &CLUSTER.replace("cert:", "crt:"))]);
    let (code, text) = run(&folder, &["a.yaml"], output);
    assert_eq!(code, LOAD_ERROR);
    let printed: Value = yaml::parse("out", text.as_bytes()).unwrap().remove(0).value;
    assert_eq!(printed["errors"][0]["file"], "./a.yaml");
    assert_eq!(printed["errors"][0]["line"], 5);
    assert_eq!(printed["errors"][0]["field"], "spec.crt");
    assert_eq!(printed["errors"][1]["message"], "is required");
    assert_eq!(printed["warnings"], serde_json::json!([]));
    assert_eq!(printed["summary"]["errors"], 2);
    assert_eq!(
        serde_json::from_str::<Value>(&text).is_ok(),
        output == Output::Json
    );
}

#[test]
fn the_gateway_says_whether_other_namespaces_may_be_used() {
    let cluster = CLUSTER.replace(
        "{SystemRoots: true}",
        "{ConfigMap: {name: ca, namespace: other, key: ca}}",
    );
    let authority = rcgen::generate_simple_self_signed(["ca".to_owned()])
        .unwrap()
        .cert
        .pem();
    let map = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "ca", "namespace": "other" }, "data": { "ca": authority },
    });
    let files = |gateway: &str| {
        folder(&[
            ("gateway.yaml", gateway),
            ("tls.crt", ""),
            ("tls.key", ""),
            ("clusters/a.yaml", &cluster),
            ("clusters/map.json", &map.to_string()),
        ])
    };
    let strict = files(GATEWAY);
    let (code, text) = run(&strict, &["gateway.yaml", "clusters"], Output::Table);
    assert_eq!(code, LOAD_ERROR);
    assert!(
        text.contains("spec.cert.ConfigMap.namespace: is another namespace than the object's own"),
        "{text}"
    );
    let lenient = files(&GATEWAY.replace(
        "clusters}",
        "clusters, allowCrossNamespaceReferences: true}",
    ));
    assert_eq!(
        run(&lenient, &["gateway.yaml", "clusters"], Output::Table).0,
        PASS
    );
    assert_eq!(run(&lenient, &["gateway.yaml"], Output::Table).0, PASS);
}

#[test]
fn what_is_not_there_is_an_error() {
    let folder = folder(&[]);
    let (code, text) = run(&folder, &["nowhere.yaml"], Output::Table);
    assert_eq!(code, LOAD_ERROR);
    assert!(
        text.starts_with("error: ./nowhere.yaml: cannot be read: "),
        "{text}"
    );
}
