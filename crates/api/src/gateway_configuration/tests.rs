use rstest::rstest;

use super::*;

const MINIMAL: &str = "apiVersion: portcullis.dev/v1alpha1
kind: GatewayConfiguration
listen:
  tls: {certFile: tls.crt, keyFile: tls.key}
resources:
  directory: clusters
";

fn read(text: &str) -> Result<GatewayConfiguration, Vec<String>> {
    let print = |d: Vec<Diagnostic>| d.iter().map(ToString::to_string).collect::<Vec<_>>();
    let documents = yaml::parse("g.yaml", text.as_bytes()).map_err(print)?;
    decode(&documents[0], Path::new("/etc/portcullis")).map_err(print)
}

#[test]
fn the_minimal_file_gets_the_documented_defaults() {
    let config = read(MINIMAL).unwrap();
    assert_eq!(config.listen.address.to_string(), "0.0.0.0:8443");
    assert!(config.listen.offers_http2() && config.listen.offers_http1());
    assert_eq!(config.limits, Limits::default());
    assert_eq!(
        config.authentication.token_cache_ttl,
        Duration::from_secs(10)
    );
    assert!(config.tracing.is_none());
}

#[rstest]
#[case("listn: {}\n", "g.yaml:7:1: listn: ")]
#[case(
    "limits: {maxConnections: 0}\n",
    "g.yaml:7:10: limits.maxConnections: is out of range"
)]
#[case("limits: {requestTimeout: 10}\n", "limits.requestTimeout: ")]
#[case(
    "limits: {requestTimeout: 0s}\n",
    "limits.requestTimeout: is out of range"
)]
#[case(
    "limits:\n  maxHeaderBytes: 8191\n",
    "g.yaml:8:3: limits.maxHeaderBytes: is out of range"
)]
#[case("logging: {format: xml}\n", "logging.format: unknown value")]
#[case(
    "authentication: {tokenCacheTTL: 6m}\n",
    "authentication.tokenCacheTTL: is out of range"
)]
#[case(
    "tracing: {endpoint: 'http://x', samplingRatio: 2}\n",
    "tracing.samplingRatio: is out of range"
)]
fn a_fault_names_file_line_and_field(#[case] more: &str, #[case] expected: &str) {
    let faults = read(&format!("{MINIMAL}{more}")).unwrap_err();
    assert!(faults.iter().any(|f| f.contains(expected)), "{faults:?}");
}

#[test]
fn a_source_of_clusters_is_needed() {
    let faults = read(&MINIMAL.replace("directory: clusters", "inCluster: false")).unwrap_err();
    assert!(
        faults[0].contains("resources: names no source"),
        "{faults:?}"
    );
}

#[test]
fn relative_paths_start_at_the_files_folder() {
    let config = read(MINIMAL).unwrap();
    assert_eq!(
        config.listen.tls.cert_file,
        Path::new("/etc/portcullis/tls.crt")
    );
    assert_eq!(
        config.resources.directory.as_deref(),
        Some(Path::new("/etc/portcullis/clusters"))
    );
}
