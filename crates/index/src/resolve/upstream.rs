//! Where a cluster's API server is.

use portcullis_api::proxy_kube_api::{KubernetesService, ProxyKubeApiSpec, Service};
use portcullis_core::yaml::Fault;
use url::Url;

use super::{Context, ServicePorts, material};
use crate::snapshot::Upstream;

const HTTPS: u16 = 443;

/// `None` if there are faults.
pub(super) fn upstream(
    spec: &ProxyKubeApiSpec,
    context: Context<'_>,
    faults: &mut Vec<Fault>,
) -> Option<Upstream> {
    let target = match &spec.service {
        Service::KubernetesService(service) => kubernetes_service(service, context),
        Service::ExternalService(service) => external(&service.url),
    };
    let trust = material::trust(&spec.cert, context);
    match (target, trust) {
        (Ok(target), Ok(trust)) => Some(Upstream {
            host: target.host,
            port: target.port,
            path_prefix: target.path_prefix,
            connect_host: target.connect_host,
            trust,
        }),
        (target, trust) => {
            faults.extend(target.err());
            faults.extend(trust.err());
            None
        }
    }
}

struct Target {
    host: String,
    port: u16,
    path_prefix: String,
    connect_host: Option<String>,
}

fn kubernetes_service(service: &KubernetesService, context: Context<'_>) -> Result<Target, Fault> {
    const FIELD: &str = "spec.service.KubernetesService";
    let namespace = service.namespace.as_deref().unwrap_or(context.namespace);
    let found = context
        .references
        .service(namespace, &service.name)
        .map_err(|problem| Fault::new(format!("{FIELD}.name"), problem, "create the Service"))?;
    let port = match (service.port, found) {
        (Some(port), _) => port,
        (None, None) => {
            let message = "is required in a file: Services are not looked up";
            return Err(Fault::new(
                format!("{FIELD}.port"),
                message,
                "add the port number",
            ));
        }
        (None, Some(found)) => port_of(service.port_name.as_deref(), found)?,
    };
    Ok(Target {
        host: format!("{}.{namespace}.svc", service.name),
        port,
        path_prefix: String::new(),
        connect_host: found.and_then(|found| found.cluster_ip.clone()),
    })
}

fn port_of(name: Option<&str>, service: &ServicePorts) -> Result<u16, Fault> {
    let field = |name: &str| format!("spec.service.KubernetesService.{name}");
    let mut ports = service.ports.iter();
    match name {
        Some(name) => ports
            .find(|(known, _)| known.as_deref() == Some(name))
            .ok_or_else(|| (field("port_name"), "the Service has no port of this name")),
        None => ports
            .next()
            .ok_or_else(|| (field("port"), "is required: the Service has no port")),
    }
    .map(|(_, port)| *port)
    .map_err(|(field, message)| Fault::new(field, message, "write the port number"))
}

/// The URL has passed `validate`.
fn external(url: &str) -> Result<Target, Fault> {
    let fault = || {
        Fault::new(
            "spec.service.ExternalService.url",
            "is no URL",
            "write https://HOST",
        )
    };
    let url = Url::parse(url).map_err(|_| fault())?;
    Ok(Target {
        host: url.host_str().ok_or_else(fault)?.to_owned(),
        port: url.port().unwrap_or(HTTPS),
        path_prefix: url.path().trim_end_matches('/').to_owned(),
        connect_host: None,
    })
}
