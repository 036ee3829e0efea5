//! Rules of a `ProxyKubeApi` that its types do not express.

use portcullis_core::yaml::Fault;
use url::Url;

use super::{
    Certificate, GatewayCredential, KeyReference, KubernetesService, MAX_HOSTS, Material,
    ProxyKubeApi, ProxyKubeApiSpec, Review, Service, TokenSource, UpstreamMode,
};
use crate::names;
use crate::rules::Rules;

pub(super) mod authentication;
mod security;

const DNS_LABEL: &str = "use lower-case letters, digits and '-'";

impl ProxyKubeApi {
    /// All faults of the object.
    #[must_use]
    pub fn validate(&self) -> Vec<Fault> {
        let mut faults = self.metadata.validate();
        faults.extend(self.spec.validate());
        faults
    }
}

impl ProxyKubeApiSpec {
    /// All faults of the spec; fields begin with `spec`.
    #[must_use]
    pub fn validate(&self) -> Vec<Fault> {
        let mut rules = Rules::default();
        hosts(&self.hosts, &mut rules);
        certificate("spec.cert", &self.cert, &mut rules);
        match &self.service {
            Service::KubernetesService(service) => kubernetes_service(service, &mut rules),
            Service::ExternalService(service) => {
                if let Err((message, remedy)) = external_url(&service.url) {
                    rules.fault("spec.service.ExternalService.url", message, remedy);
                }
            }
        }
        let groups = [
            ("spec.proxy_group", &self.proxy_group),
            ("spec.dashboard_group", &self.dashboard_group),
        ];
        for (field, group) in groups {
            let empty = group.as_ref().is_some_and(String::is_empty);
            rules.check(
                !empty,
                field,
                "is empty",
                "name a group, or remove the field",
            );
        }
        if let Some(client) = &self.client_cert {
            material("spec.client_cert.cert", &client.cert, &mut rules);
            material("spec.client_cert.key", &client.key, &mut rules);
        }
        if let Some(credential) = &self.gateway_credential {
            gateway_credential(credential, &mut rules);
        }
        for (index, api) in self.virtual_apis.iter().enumerate() {
            if let Some(token) = &api.list_fallback_token {
                let field = format!("spec.virtual_apis[{index}].list_fallback_token");
                certificate(&field, token, &mut rules);
            }
        }
        if let Some(auth) = &self.auth_config {
            authentication::check(auth, &mut rules);
        }
        if let Some(security) = &self.security_config {
            security::check(security, &mut rules);
        }
        self.identities(&mut rules);
        rules.finish()
    }

    /// Who the gateway is, who the caller is, and whether that fits together.
    fn identities(&self, rules: &mut Rules) {
        let credential = self.gateway_credential.is_some() || self.client_cert.is_some();
        let auth = self.auth_config.as_ref();
        let unchecked = auth.is_some_and(|auth| auth.disable_validation);
        let impersonate = self.upstream_mode == UpstreamMode::Impersonate;
        let field = "spec.upstream_mode";
        let message = "Impersonate needs an identity of the gateway";
        rules.check(
            !impersonate || credential,
            field,
            message,
            "set spec.gateway_credential",
        );
        let message = "Impersonate needs to know who calls";
        let remedy = "set spec.auth_config.disable_validation to false";
        rules.check(!(impersonate && unchecked), field, message, remedy);
        let both = self.gateway_credential.is_some() && self.client_cert.is_some();
        let message = "stands beside spec.gateway_credential";
        rules.check(!both, "spec.client_cert", message, "remove one of the two");
        let mixed = self.client_cert.is_some() && !impersonate;
        let message = "with PassThrough the API server would prefer the certificate to the \
                       caller's token, and every caller would act as the gateway";
        let remedy = "set spec.upstream_mode to Impersonate, or remove spec.client_cert";
        rules.check(!mixed, "spec.client_cert", message, remedy);
        let by_token = auth.is_some_and(|auth| auth.review == Some(Review::TokenReview));
        let field = "spec.auth_config.review";
        let message = "TokenReview needs an identity of the gateway";
        rules.check(
            !by_token || credential,
            field,
            message,
            "set spec.gateway_credential",
        );
        let message = "needs to know who calls";
        let blind = self.proxy_group.is_some() && unchecked;
        let remedy = "set spec.auth_config.disable_validation to false";
        rules.check(!blind, "spec.proxy_group", message, remedy);
    }

    /// The question put to the target about a token, defaulted by the upstream mode.
    #[must_use]
    pub fn review(&self) -> Review {
        let default = match self.upstream_mode {
            UpstreamMode::PassThrough => Review::SelfSubjectReview,
            UpstreamMode::Impersonate => Review::TokenReview,
        };
        self.auth_config
            .as_ref()
            .and_then(|auth| auth.review)
            .unwrap_or(default)
    }
}

fn hosts(hosts: &[String], rules: &mut Rules) {
    let message = "has more than 64 names";
    rules.check(hosts.len() <= MAX_HOSTS, "spec.hosts", message, "use fewer");
    for (index, host) in hosts.iter().enumerate() {
        let field = format!("spec.hosts[{index}]");
        let remedy = "write an exact lower-case DNS name without port";
        rules.check(names::is_host(host), &field, "is no host name", remedy);
        let before = hosts.iter().take(index);
        rules.check(
            !before.into_iter().any(|h| h == host),
            &field,
            "is given twice",
            "remove it",
        );
    }
}

fn kubernetes_service(service: &KubernetesService, rules: &mut Rules) {
    let field = |name: &str| format!("spec.service.KubernetesService.{name}");
    let name = names::is_label(&service.name);
    rules.check(name, &field("name"), "is no Service name", DNS_LABEL);
    namespace(&field("namespace"), service.namespace.as_deref(), rules);
    let zero = service.port == Some(0);
    rules.check(
        !zero,
        &field("port"),
        "is out of range",
        "write a value from 1 to 65535",
    );
    let empty = service.port_name.as_ref().is_some_and(String::is_empty);
    rules.check(
        !empty,
        &field("port_name"),
        "is empty",
        "name a port, or remove the field",
    );
}

/// Checks the text before it is parsed: parsers resolve dot segments silently.
fn external_url(text: &str) -> Result<(), (&'static str, &'static str)> {
    const FORM: &str = "write https://HOST[:PORT][/PREFIX]";
    let url = Url::parse(text).map_err(|_| ("is no URL", FORM))?;
    let (_, rest) = text.split_once("://").ok_or(("is no URL", FORM))?;
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '%' | '\\' | ';');
    if url.scheme() != "https" {
        return Err(("is not https", FORM));
    }
    if !url.username().is_empty() || url.password().is_some() || rest.contains('@') {
        return Err(("has credentials", "use spec.gateway_credential"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(("has a query or fragment", FORM));
    }
    if !url.has_host() || url.port() == Some(0) {
        return Err(("names no host and port to connect to", FORM));
    }
    if text.contains(odd)
        || !path.is_empty() && path.split('/').any(|s| matches!(s, "" | "." | ".."))
    {
        return Err((
            "has a path that could be read in two ways",
            "write a plain path prefix",
        ));
    }
    Ok(())
}

fn certificate(field: &str, certificate: &Certificate, rules: &mut Rules) {
    match certificate {
        Certificate::Secret(reference) => {
            key_reference(&format!("{field}.Secret"), reference, rules);
        }
        Certificate::ConfigMap(reference) => {
            key_reference(&format!("{field}.ConfigMap"), reference, rules);
        }
        Certificate::Cert(text) => not_blank(&format!("{field}.Cert"), text.0.reveal(), rules),
        Certificate::File(file) => file_path(&format!("{field}.File.path"), &file.path, rules),
        Certificate::Insecure(_) | Certificate::SystemRoots(true) => {}
        Certificate::SystemRoots(false) => {
            let remedy = "set it to true, or name authorities in another way";
            rules.fault(
                format!("{field}.SystemRoots"),
                "false trusts nobody",
                remedy,
            );
        }
    }
}

fn material(field: &str, material: &Material, rules: &mut Rules) {
    match material {
        Material::Secret(reference) => key_reference(&format!("{field}.Secret"), reference, rules),
        Material::ConfigMap(reference) => {
            key_reference(&format!("{field}.ConfigMap"), reference, rules);
        }
        Material::Cert(text) => not_blank(&format!("{field}.Cert"), text.0.reveal(), rules),
        Material::File(file) => file_path(&format!("{field}.File.path"), &file.path, rules),
    }
}

fn gateway_credential(credential: &GatewayCredential, rules: &mut Rules) {
    let field = |name: &str| format!("spec.gateway_credential.{name}");
    match credential {
        GatewayCredential::TokenFile(file) => {
            file_path(&field("TokenFile.path"), &file.path, rules);
        }
        GatewayCredential::Token(TokenSource::Secret(reference)) => {
            key_reference(&field("Token.Secret"), reference, rules);
        }
        GatewayCredential::ClientCertFile(files) => {
            file_path(&field("ClientCertFile.cert_path"), &files.cert_path, rules);
            file_path(&field("ClientCertFile.key_path"), &files.key_path, rules);
        }
    }
}

fn key_reference(field: &str, reference: &KeyReference, rules: &mut Rules) {
    let name = names::is_subdomain(&reference.name);
    let remedy = "use lower-case letters, digits, '-' and '.'";
    rules.check(name, &format!("{field}.name"), "is no object name", remedy);
    let key = names::is_data_key(&reference.key);
    let remedy = "use letters, digits, '-', '_' and '.'";
    rules.check(key, &format!("{field}.key"), "is no key", remedy);
    namespace(
        &format!("{field}.namespace"),
        reference.namespace.as_deref(),
        rules,
    );
}

fn namespace(field: &str, namespace: Option<&str>, rules: &mut Rules) {
    let valid = namespace.is_none_or(names::is_label);
    rules.check(valid, field, "is no namespace name", DNS_LABEL);
}

fn not_blank(field: &str, text: &str, rules: &mut Rules) {
    rules.check(
        !text.trim().is_empty(),
        field,
        "is empty",
        "write PEM, or base64 of PEM",
    );
}

fn file_path(field: &str, path: &std::path::Path, rules: &mut Rules) {
    rules.check(
        !path.as_os_str().is_empty(),
        field,
        "is empty",
        "write a path",
    );
}
