//! What an object refers to.

use std::collections::BTreeSet;

use portcullis_api::ProxyKubeApi;
use portcullis_api::proxy_kube_api::{
    Certificate, GatewayCredential, KeyReference, Material, Service, TokenSource,
};

use super::references::{Kind, Reference};

/// What `object` refers to and may refer to.
///
/// An object that is switched off or wrong in itself needs nothing. Nothing of another namespace
/// is read unless that is allowed, so an object cannot make the gateway look around.
pub(super) fn references(object: &ProxyKubeApi, cross_namespace: bool) -> BTreeSet<Reference> {
    let spec = &object.spec;
    let mut needed = Needed {
        own: object.metadata.namespace(),
        cross_namespace,
        found: BTreeSet::new(),
    };
    if !spec.enabled || !object.validate().is_empty() {
        return needed.found;
    }
    match &spec.cert {
        Certificate::Secret(reference) => needed.key(Kind::Secret, reference),
        Certificate::ConfigMap(reference) => needed.key(Kind::ConfigMap, reference),
        Certificate::Cert(_)
        | Certificate::File(_)
        | Certificate::Insecure(_)
        | Certificate::SystemRoots(_) => {}
    }
    if let Some(client) = &spec.client_cert {
        for material in [&client.cert, &client.key] {
            match material {
                Material::Secret(reference) => needed.key(Kind::Secret, reference),
                Material::ConfigMap(reference) => needed.key(Kind::ConfigMap, reference),
                Material::Cert(_) | Material::File(_) => {}
            }
        }
    }
    if let Some(GatewayCredential::Token(TokenSource::Secret(reference))) = &spec.gateway_credential
    {
        needed.key(Kind::Secret, reference);
    }
    if let Service::KubernetesService(service) = &spec.service {
        let namespace = service.namespace.as_deref().unwrap_or(needed.own);
        needed.add(Kind::Service, namespace, &service.name);
    }
    needed.found
}

struct Needed<'a> {
    own: &'a str,
    cross_namespace: bool,
    found: BTreeSet<Reference>,
}

impl Needed<'_> {
    fn key(&mut self, kind: Kind, reference: &KeyReference) {
        let namespace = reference.namespace.as_deref().unwrap_or(self.own);
        if namespace == self.own || self.cross_namespace {
            let namespace = namespace.to_owned();
            self.add(kind, &namespace, &reference.name);
        }
    }

    fn add(&mut self, kind: Kind, namespace: &str, name: &str) {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        self.found.insert(Reference {
            kind,
            namespace,
            name,
        });
    }
}
