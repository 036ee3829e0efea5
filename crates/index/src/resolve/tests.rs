use std::fs;

use portcullis_api::ProxyKubeApi;
use portcullis_core::yaml::{decode, parse};
use rstest::rstest;

use super::*;
use crate::candidate::Candidate;
use crate::snapshot::{GatewayCredential, Trust, Upstream};

/// Objects of namespace `team`, and `team2/s`.
struct Known {
    secrets: BTreeMap<&'static str, SecretValues>,
    config_maps: BTreeMap<&'static str, ConfigMapValues>,
    services: Option<BTreeMap<&'static str, ServicePorts>>,
}

struct Keys {
    cert: String,
    key: String,
}

fn keys() -> Keys {
    let made = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap();
    Keys {
        cert: made.cert.pem(),
        key: made.signing_key.serialize_pem(),
    }
}

fn known(keys: &Keys) -> Known {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(&keys.cert);
    let values = [
        ("ca", keys.cert.clone()),
        (
            "base64",
            format!("{}\n{}\n", &encoded[..64], &encoded[64..]),
        ),
        ("key", keys.key.clone()),
        ("token", "s3cret\n".to_owned()),
        ("empty", String::new()),
        (
            "broken",
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n".to_owned(),
        ),
    ];
    let secret: SecretValues = values
        .iter()
        .map(|(key, text)| ((*key).to_owned(), Redacted::new(text.clone().into_bytes())))
        .collect();
    let map = values
        .iter()
        .map(|(key, text)| ((*key).to_owned(), text.clone().into_bytes()));
    let port = |name: &str, port| (Some(name.to_owned()), port);
    Known {
        secrets: [("team/s", secret.clone()), ("team2/s", secret)].into(),
        config_maps: [("team/m", map.collect())].into(),
        services: Some(
            [
                (
                    "team/kubernetes",
                    ServicePorts {
                        cluster_ip: Some("10.0.0.1".to_owned()),
                        ports: vec![port("https", 6443), port("other", 8443)],
                    },
                ),
                ("default/headless", ServicePorts::default()),
            ]
            .into(),
        ),
    }
}

impl References for Known {
    fn secret(&self, namespace: &str, name: &str) -> Result<&SecretValues, String> {
        self.secrets
            .get(format!("{namespace}/{name}").as_str())
            .ok_or("no Secret".to_owned())
    }
    fn config_map(&self, namespace: &str, name: &str) -> Result<&ConfigMapValues, String> {
        self.config_maps
            .get(format!("{namespace}/{name}").as_str())
            .ok_or("no ConfigMap".to_owned())
    }
    fn service(&self, namespace: &str, name: &str) -> Result<Option<&ServicePorts>, String> {
        let Some(services) = &self.services else {
            return Ok(None);
        };
        let found = services.get(format!("{namespace}/{name}").as_str());
        found.map(Some).ok_or("no Service".to_owned())
    }
}

const STRICT: Policy<'_> = Policy {
    cross_namespace: false,
    files: Files::Refused,
};
const SERVICE: &str = "service: {ExternalService: {url: 'https://api.example.com'}}";
const CERT: &str = "cert: {SystemRoots: true}";

fn resolve(spec: &str, policy: &Policy<'_>, known: &Known) -> Result<Candidate, Vec<String>> {
    let text = format!(
        "apiVersion: weebo.si.rs/v1\nkind: ProxyKubeApi\nmetadata: {{name: a, namespace: team}}\nspec: {{{spec}}}"
    );
    let object: ProxyKubeApi = decode(&parse("f", text.as_bytes()).unwrap()[0]).unwrap();
    Candidate::new(&object, policy, known).map_err(|faults| {
        faults
            .iter()
            .map(|f| format!("{}: {}", f.field, f.message))
            .collect()
    })
}

fn upstream(spec: &str) -> Result<Upstream, Vec<String>> {
    let known = known(&keys());
    resolve(&format!("{spec}, {CERT}"), &STRICT, &known).map(|c| c.config.upstream.clone())
}

#[rstest]
#[case("https://api.example.com", "api.example.com", 443, "")]
#[case("https://API.example.com:6443/", "api.example.com", 6443, "")]
#[case("https://[::1]:6443/k8s/a/", "[::1]", 6443, "/k8s/a")]
fn an_external_service_is_taken_apart(
    #[case] url: &str,
    #[case] host: &str,
    #[case] port: u16,
    #[case] prefix: &str,
) {
    let found = upstream(&format!("service: {{ExternalService: {{url: '{url}'}}}}")).unwrap();
    assert_eq!(
        (found.host.as_str(), found.port, found.path_prefix.as_str()),
        (host, port, prefix)
    );
    assert_eq!(found.connect_host, None);
}

#[rstest]
#[case("{name: kubernetes}", Ok(("kubernetes.team.svc", 6443, Some("10.0.0.1"))))]
#[case("{name: kubernetes, port_name: other}", Ok(("kubernetes.team.svc", 8443, Some("10.0.0.1"))))]
#[case("{name: kubernetes, port: 1, port_name: other}", Ok(("kubernetes.team.svc", 1, Some("10.0.0.1"))))]
#[case("{name: headless, namespace: default, port: 443}", Ok(("headless.default.svc", 443, None)))]
#[case(
    "{name: headless, namespace: default}",
    Err("spec.service.KubernetesService.port: is required: the Service has no port")
)]
#[case(
    "{name: kubernetes, port_name: none}",
    Err("spec.service.KubernetesService.port_name: the Service has no port of this name")
)]
#[case("{name: none}", Err("spec.service.KubernetesService.name: no Service"))]
fn a_service_is_looked_up(
    #[case] service: &str,
    #[case] expected: Result<(&str, u16, Option<&str>), &str>,
) {
    let found = upstream(&format!("service: {{KubernetesService: {service}}}"));
    match expected {
        Ok((host, port, connect)) => {
            let found = found.unwrap();
            assert_eq!(
                (
                    found.host.as_str(),
                    found.port,
                    found.connect_host.as_deref()
                ),
                (host, port, connect)
            );
        }
        Err(fault) => assert_eq!(found.unwrap_err(), [fault]),
    }
}

#[rstest]
#[case("{name: kubernetes, port: 443}", Ok("kubernetes.team.svc"))]
#[case(
    "{name: kubernetes}",
    Err("spec.service.KubernetesService.port: is required in a file: Services are not looked up")
)]
fn a_file_must_name_the_port(#[case] service: &str, #[case] expected: Result<&str, &str>) {
    let known = Known {
        services: None,
        ..known(&keys())
    };
    let found = resolve(
        &format!("service: {{KubernetesService: {service}}}, {CERT}"),
        &STRICT,
        &known,
    );
    match expected {
        Ok(host) => assert_eq!(found.unwrap().config.upstream.host, host),
        Err(fault) => assert_eq!(found.unwrap_err(), [fault]),
    }
}

#[test]
fn authorities_come_from_everywhere() {
    let keys = keys();
    let known = known(&keys);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ca.pem"), &keys.cert).unwrap();
    let policy = Policy {
        files: Files::In(folder.path()),
        ..STRICT
    };
    let trust = |cert: &str| {
        resolve(&format!("{SERVICE}, cert: {cert}"), &policy, &known)
            .map(|c| c.config.upstream.trust.clone())
    };
    let pem = Ok(Trust::Pem(keys.cert.clone().into_bytes()));
    assert_eq!(trust("{Secret: {name: s, key: ca}}"), pem);
    assert_eq!(trust("{Secret: {name: s, key: base64}}"), pem);
    assert_eq!(trust("{Secret: {name: s, key: ca, namespace: team}}"), pem);
    assert_eq!(trust("{ConfigMap: {name: m, key: ca}}"), pem);
    assert_eq!(
        trust(&format!("{{Cert: {}}}", serde_json::json!(keys.cert))),
        pem
    );
    assert_eq!(trust("{File: {path: ca.pem}}"), pem);
    assert_eq!(trust("{SystemRoots: true}"), Ok(Trust::SystemRoots));
    assert_eq!(trust("{Insecure: false}"), Ok(Trust::SystemRoots));
    assert_eq!(trust("{Insecure: true}"), Ok(Trust::Insecure));
}

#[rstest]
#[case("{Secret: {name: none, key: ca}}", "spec.cert.Secret.name: no Secret")]
#[case(
    "{Secret: {name: s, key: none}}",
    "spec.cert.Secret.key: the Secret has no such key"
)]
#[case(
    "{Secret: {name: s, key: ca, namespace: team2}}",
    "spec.cert.Secret.namespace: is another namespace than the object's own"
)]
#[case(
    "{Secret: {name: s, key: empty}}",
    "spec.cert.Secret: is neither PEM nor base64 of PEM"
)]
#[case(
    "{Secret: {name: s, key: broken}}",
    "spec.cert.Secret: holds broken PEM"
)]
#[case(
    "{Secret: {name: s, key: key}}",
    "spec.cert.Secret: holds no certificate"
)]
#[case(
    "{ConfigMap: {name: m, key: none}}",
    "spec.cert.ConfigMap.key: the ConfigMap has no such key"
)]
#[case("{Cert: nonsense}", "spec.cert.Cert: is neither PEM nor base64 of PEM")]
#[case(
    "{File: {path: /etc/ca.pem}}",
    "spec.cert.File.path: names a file of the gateway, which objects of a cluster may not"
)]
fn bad_authorities_are_named(#[case] cert: &str, #[case] expected: &str) {
    let found = resolve(
        &format!("{SERVICE}, cert: {cert}"),
        &STRICT,
        &known(&keys()),
    );
    assert_eq!(found.unwrap_err(), [expected]);
}

#[test]
fn other_namespaces_are_read_when_that_is_allowed() {
    let policy = Policy {
        cross_namespace: true,
        ..STRICT
    };
    let spec = format!("{SERVICE}, cert: {{Secret: {{name: s, key: ca, namespace: team2}}}}");
    assert!(resolve(&spec, &policy, &known(&keys())).is_ok());
}

#[test]
fn the_gateways_identity_comes_from_everywhere() {
    let keys = keys();
    let known = known(&keys);
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("cert", keys.cert.as_str()),
        ("key", &keys.key),
        ("token", "s3cret\n"),
        ("empty", ""),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let policy = Policy {
        files: Files::In(folder.path()),
        ..STRICT
    };
    let credential = |more: &str| {
        let spec = format!("{SERVICE}, {CERT}, upstream_mode: Impersonate, {more}");
        resolve(&spec, &policy, &known).map(|c| c.config.credential.clone())
    };
    let certificate = Ok(GatewayCredential::ClientCertificate {
        cert_pem: keys.cert.clone().into_bytes(),
        key_pem: Redacted::new(keys.key.clone().into_bytes()),
    });
    let token = Ok(GatewayCredential::Token(Redacted::new("s3cret".to_owned())));
    let file = Ok(GatewayCredential::TokenFile(folder.path().join("token")));
    assert_eq!(
        credential("gateway_credential: {Token: {Secret: {name: s, key: token}}}"),
        token
    );
    assert_eq!(
        credential("gateway_credential: {TokenFile: {path: token}}"),
        file
    );
    assert_eq!(
        credential("gateway_credential: {ClientCertFile: {cert_path: cert, key_path: key}}"),
        certificate
    );
    assert_eq!(
        credential(
            "client_cert: {cert: {Secret: {name: s, key: ca}}, key: {ConfigMap: {name: m, key: key}}}"
        ),
        certificate
    );
    let faults =
        credential("gateway_credential: {ClientCertFile: {cert_path: key, key_path: cert}}")
            .unwrap_err();
    assert_eq!(
        faults,
        [
            "spec.gateway_credential.ClientCertFile.cert_path: holds no certificate",
            "spec.gateway_credential.ClientCertFile.key_path: holds no private key that can be used",
        ]
    );
    let faults = credential("gateway_credential: {TokenFile: {path: empty}}").unwrap_err();
    assert_eq!(
        faults,
        ["spec.gateway_credential.TokenFile.path: holds no token"]
    );
    let faults =
        credential("gateway_credential: {Token: {Secret: {name: s, key: ca}}}").unwrap_err();
    assert_eq!(
        faults,
        ["spec.gateway_credential.Token.Secret: holds no token"]
    );
    let faults = credential("gateway_credential: {TokenFile: {path: .}}").unwrap_err();
    assert!(faults[0].ends_with("is no file"), "{faults:?}");
}

#[test]
fn a_file_may_have_so_many_bytes_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let policy = Policy {
        files: Files::In(folder.path()),
        ..STRICT
    };
    let spec = format!("{SERVICE}, {CERT}, gateway_credential: {{TokenFile: {{path: t}}}}");
    for (size, ok) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        fs::write(folder.path().join("t"), "x".repeat(size)).unwrap();
        let found = resolve(&spec, &policy, &known(&keys()));
        assert_eq!(found.is_ok(), ok);
        if let Err(faults) = found {
            assert!(
                faults[0].ends_with("has more than 1048576 bytes"),
                "{faults:?}"
            );
        }
    }
}

#[test]
fn objects_of_a_cluster_name_files_from_the_root() {
    let policy = Policy {
        files: Files::Absolute,
        ..STRICT
    };
    let spec = |path: &str| format!("{SERVICE}, cert: {{File: {{path: '{path}'}}}}");
    let keys = keys();
    let found = resolve(&spec("ca.pem"), &policy, &known(&keys)).unwrap_err();
    assert_eq!(found, ["spec.cert.File.path: is a relative path"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    fs::write(&path, &keys.cert).unwrap();
    assert!(resolve(&spec(path.to_str().unwrap()), &policy, &known(&keys)).is_ok());
}

#[test]
fn security_means_what_is_written() {
    let known = known(&keys());
    let security = |text: &str| {
        resolve(
            &format!("{SERVICE}, {CERT}, security_config: {text}"),
            &STRICT,
            &known,
        )
        .map(|c| c.config.security.clone())
    };
    assert_eq!(security("{}"), Ok(Security::default()));
    assert_eq!(
        security("{enabled: false, allowed_resources: [{Path: {path: bad}}]}"),
        Ok(Security::default())
    );
    let full = security(
        "{allowed_resources: [{Path: {path: /version}}], allowed_ressources: [{Crd: {group: apps, version: v1, kind: Deployment,
          namespace: {enabled: true, rule_kind: {AllowedNamespaces: [a]}}}}, {Crd: {group: '', version: v1, kind: Node, namespaced: false, namespace: {rule_kind: {DeniedNamespaces: []}}}}],
          fail2login_equal_ban: {enabled: true, ban_duration: 0}, rate_limiting: {enabled: true, max_requests_per_minute: 7},
          per_user_group_rate_limiting: [{group: g, max_requests_per_minute: 0}]}",
    )
    .unwrap();
    let expected = AllowedResources::new(vec![
        Rule::Path {
            path: "/version".to_owned(),
            parametised: false,
        },
        Rule::Crd {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            kind: "Deployment".to_owned(),
            plural: None,
            namespaced: true,
            namespace: Some(NamespaceRule::AllowedNamespaces(vec!["a".to_owned()])),
        },
        Rule::Crd {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Node".to_owned(),
            plural: None,
            namespaced: false,
            namespace: None,
        },
    ])
    .unwrap();
    assert_eq!(full.allowed_resources, Some(expected));
    assert_eq!(
        full.ban,
        Some(BanSettings {
            max_failed_logins: 5,
            ban_duration: None,
            exponential_backoff: false
        })
    );
    assert_eq!(full.rate_limit, Some(7));
    assert_eq!(
        full.group_rate_limits,
        [GroupRateLimit {
            group: "g".to_owned(),
            max_requests_per_minute: 0
        }]
    );
    let fault = security(
        "{allowed_resources: [{Path: {path: /a}}], allowed_ressources: [{Path: {path: /a}}, {Path: {path: a}}]}",
    );
    assert!(fault.unwrap_err()[0].starts_with("spec.security_config.allowed_ressources[1]: "));
}

#[test]
fn a_cluster_that_is_off_needs_nothing() {
    let spec = "enabled: false, cert: {Secret: {name: none, key: none}}, service: {KubernetesService: {name: none}}";
    let found = resolve(spec, &STRICT, &known(&keys())).unwrap();
    assert_eq!(found.config.state, ClusterState::Disabled);
}

#[test]
fn what_is_not_built_refuses_the_cluster() {
    let spec = format!(
        "{SERVICE}, {CERT}, hosts: [a.example.com], virtual_apis: [{{kind: OpenShiftProject}}]"
    );
    let found = resolve(&spec, &STRICT, &known(&keys())).unwrap();
    let reason = "not supported yet: spec.virtual_apis[0].enabled; set it to false".to_owned();
    assert_eq!(found.unsupported, std::slice::from_ref(&reason));
    assert_eq!(found.config.state, ClusterState::Refused { reason });
}

#[test]
fn secrets_are_not_printed() {
    let keys = keys();
    let spec = format!(
        "{SERVICE}, {CERT}, gateway_credential: {{Token: {{Secret: {{name: s, key: token}}}}}}"
    );
    let found = resolve(&spec, &STRICT, &known(&keys)).unwrap();
    assert!(!format!("{found:?}").contains("s3cret"));
}
