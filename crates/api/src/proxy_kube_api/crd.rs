//! The `CustomResourceDefinition` of `ProxyKubeApi`.
//!
//! Invariant: the schema has exactly the fields of the types (a test walks both), is structural,
//! and refuses at admission what the cross-field rules of `validate` would refuse.

use serde_json::{Value, json};

use super::{API_VERSION, GROUP, KIND, MAX_HOSTS, PLURAL, VERSION};
use schema::{Schema, boolean, integer, list, object, one_of, text, word};

mod authentication;
mod schema;
mod security;

/// The whole definition, ready to be applied.
#[must_use]
pub fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{PLURAL}.{GROUP}") },
        "spec": {
            "group": GROUP,
            "names": { "kind": KIND, "plural": PLURAL, "singular": "proxykubeapi" },
            "scope": "Namespaced",
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": columns(),
                "schema": { "openAPIV3Schema": root().into_value() },
            }],
        },
    })
}

fn columns() -> Value {
    json!([
        { "name": "Path", "type": "string", "jsonPath": ".status.path",
          "description": "Where the cluster answers at the gateway." },
        { "name": "Exposed", "type": "boolean", "jsonPath": ".status.exposed",
          "description": "Whether the gateway serves the cluster." },
        { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
        { "name": "Error", "type": "string", "jsonPath": ".status.error", "priority": 1,
          "description": "Why the cluster is not served." },
    ])
}

fn root() -> Schema {
    let about = format!("{KIND} ({API_VERSION}): one Kubernetes cluster behind the gateway.");
    object(&about, [("spec", spec()), ("status", status())]).required(&["spec"])
}

fn spec() -> Schema {
    object(
        "What the owner of the cluster wants.",
        [
            ("enabled", boolean("Whether the cluster is served at all. A cluster that is switched \
                off answers 404.").default(true)),
            ("hosts", hosts()),
            ("cert", certificate("Which server certificates of the cluster are believed.")),
            ("service", service()),
            ("auth_config", authentication::schema()),
            ("security_config", security::schema()),
            ("expose_via_dashboard", boolean("Accepted without effect: there is no dashboard.")),
            ("dashboard_group", text("Accepted without effect: there is no dashboard.").least(1)),
            ("proxy_group", text("Group that a caller must be a member of. Absent: anybody whose \
                credential is good.").least(1)),
            ("client_cert", client_certificate()),
            ("virtual_apis", list("APIs that the cluster lacks and the gateway serves.", virtual_api())
                .at_most(16).default(json!([]))),
            ("upstream_mode", word("As whom requests reach the cluster: PassThrough with the \
                caller's own credential, Impersonate with the gateway's credential and \
                impersonation headers.", &["PassThrough", "Impersonate"]).default("PassThrough")),
            ("gateway_credential", gateway_credential()),
        ],
    )
    .required(&["cert", "service"])
    .rule(
        "self.upstream_mode != 'Impersonate' || has(self.gateway_credential) || has(self.client_cert)",
        "upstream_mode Impersonate needs gateway_credential",
    )
    .rule(
        "self.upstream_mode != 'Impersonate' || !has(self.auth_config) || !self.auth_config.disable_validation",
        "upstream_mode Impersonate needs to know who calls: set auth_config.disable_validation to false",
    )
    .rule(
        "!has(self.client_cert) || !has(self.gateway_credential)",
        "client_cert and gateway_credential exclude each other",
    )
    .rule(
        "!has(self.client_cert) || self.upstream_mode == 'Impersonate'",
        "client_cert needs upstream_mode Impersonate: with PassThrough every caller would act as the gateway",
    )
    .rule(
        "!has(self.auth_config) || !has(self.auth_config.review) || self.auth_config.review != 'TokenReview' \
         || has(self.gateway_credential) || has(self.client_cert)",
        "auth_config.review TokenReview needs gateway_credential",
    )
    .rule(
        "!has(self.proxy_group) || !has(self.auth_config) || !self.auth_config.disable_validation",
        "proxy_group needs to know who calls: set auth_config.disable_validation to false",
    )
}

fn hosts() -> Schema {
    let host = text("Exact lower-case DNS name without port.")
        .at_most(253)
        .pattern(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$");
    list(
        "Host names by which the cluster answers besides /clusters/<namespace>/<name>.",
        host,
    )
    .at_most(MAX_HOSTS)
    .set()
}

fn service() -> Schema {
    let kubernetes = object(
        "A Service of the cluster this object lives in. The connection is always TLS.",
        [
            ("name", text("Name of the Service.").least(1).at_most(63)),
            (
                "namespace",
                text("Namespace of the Service. Absent: that of this object.")
                    .least(1)
                    .at_most(63),
            ),
            ("port", integer("Port number.", 1, 65_535)),
            (
                "port_name",
                text(
                    "Port name, used if port is absent. Both absent: the first port of \
                the Service.",
                )
                .least(1)
                .at_most(63),
            ),
        ],
    )
    .required(&["name"]);
    let external = object(
        "An API server anywhere.",
        [(
            "url",
            text("https://HOST[:PORT][/PREFIX]; no credentials, query or dot segments.")
                .pattern("^https://[^/?#@]+(/[^?#%;]*)?$")
                .at_most(2048),
        )],
    )
    .required(&["url"]);
    let about = "Where the API server is.";
    one_of(
        about,
        [
            ("KubernetesService", kubernetes),
            ("ExternalService", external),
        ],
    )
}

fn certificate(about: &str) -> Schema {
    one_of(
        about,
        [
            (
                "Secret",
                key_reference("Authorities from a Secret: PEM, or base64 of PEM."),
            ),
            (
                "Cert",
                text("Authorities, written here: PEM, or base64 of PEM.").least(1),
            ),
            (
                "ConfigMap",
                key_reference("Authorities from a ConfigMap: PEM, or base64 of PEM."),
            ),
            (
                "File",
                file(
                    "Authorities from a file of the gateway. Needs allowFileReferences in \
                the gateway's configuration.",
                ),
            ),
            (
                "Insecure",
                boolean(
                    "true: any certificate is believed, and whoever is on the way \
                can read and change everything. false: the authorities of the gateway's system.",
                ),
            ),
            (
                "SystemRoots",
                boolean("true: the authorities of the gateway's system.").only(true),
            ),
        ],
    )
}

fn client_certificate() -> Schema {
    let material = |about: &str| {
        one_of(
            about,
            [
                (
                    "Secret",
                    key_reference("From a Secret: PEM, or base64 of PEM."),
                ),
                (
                    "Cert",
                    text("Written here: PEM, or base64 of PEM.").least(1),
                ),
                (
                    "ConfigMap",
                    key_reference("From a ConfigMap: PEM, or base64 of PEM."),
                ),
                (
                    "File",
                    file(
                        "From a file of the gateway. Needs allowFileReferences in the \
                    gateway's configuration.",
                    ),
                ),
            ],
        )
    };
    object(
        "Client certificate as the gateway's identity at the cluster; only with Impersonate.",
        [
            ("cert", material("Certificate chain.")),
            ("key", material("Private key.")),
        ],
    )
    .required(&["cert", "key"])
}

fn gateway_credential() -> Schema {
    let token = one_of(
        "Bearer token.",
        [(
            "Secret",
            key_reference("From a Secret: the token as it is sent."),
        )],
    );
    let certificate = object(
        "Client certificate from files of the gateway. Needs allowFileReferences in the gateway's \
         configuration.",
        [
            ("cert_path", text("Certificate chain, PEM.").least(1)),
            ("key_path", text("Private key, PEM.").least(1)),
        ],
    )
    .required(&["cert_path", "key_path"]);
    one_of(
        "The gateway's own identity at the cluster: needed for Impersonate and for TokenReview.",
        [
            (
                "TokenFile",
                file(
                    "Bearer token from a file of the gateway, read again when it is \
                replaced. Needs allowFileReferences in the gateway's configuration.",
                ),
            ),
            ("Token", token),
            ("ClientCertFile", certificate),
        ],
    )
}

fn virtual_api() -> Schema {
    object(
        "An API that the cluster lacks.",
        [
            (
                "kind",
                word(
                    "Which one: OpenShiftProject is project.openshift.io/v1.",
                    &["OpenShiftProject"],
                ),
            ),
            ("enabled", boolean("Whether it is served.").default(true)),
            (
                "list_fallback_token",
                certificate("Token for lists that a caller may not make."),
            ),
        ],
    )
    .required(&["kind"])
}

fn key_reference(about: &str) -> Schema {
    object(
        about,
        [
            ("name", text("Name of the object.").least(1).at_most(253)),
            ("key", text("Key of its data.").least(1).at_most(253)),
            (
                "namespace",
                text(
                    "Namespace of the object. Absent: that of this object; another one \
                needs allowCrossNamespaceReferences in the gateway's configuration.",
                )
                .least(1)
                .at_most(63),
            ),
        ],
    )
    .required(&["name", "key"])
}

fn file(about: &str) -> Schema {
    object(about, [("path", text("Path of the file.").least(1))]).required(&["path"])
}

fn status() -> Schema {
    object(
        "What the gateway made of it.",
        [
            (
                "exposed",
                boolean("Whether the gateway serves the cluster."),
            ),
            ("path", text("Where the cluster answers at the gateway.")),
            ("error", text("Why the cluster is not served.")),
            (
                "notices",
                list(
                    "What is accepted without effect, or weakens the cluster.",
                    text("One notice."),
                ),
            ),
            (
                "observed_generation",
                integer(
                    "Generation of the spec that this status is about.",
                    0,
                    i64::MAX,
                ),
            ),
        ],
    )
    .required(&["exposed"])
}

#[cfg(test)]
mod tests;
