//! How to speak to the federating cluster, and what to say of its errors.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::runtime::watcher;
use kube::{Client, Config, Error};

use crate::sources::SourceError;

/// From a kubeconfig file, whose relative paths mean its folder.
pub(in crate::sources) async fn from_kubeconfig(
    path: &Path,
    context: Option<&str>,
) -> Result<Client, SourceError> {
    const FIELD: &str = "resources.kubeconfig";
    let fault = |problem: String| SourceError::Client {
        field: FIELD,
        problem: format!("{}: {problem}", path.display()),
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| fault(error.to_string()))?;
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| fault(error.to_string()))?;
    if config.auth_info.exec.is_some() || config.auth_info.auth_provider.is_some() {
        let problem = "the user gets its credentials from a program, which the gateway does not \
                       run; use a token, a tokenFile or a client certificate";
        return Err(fault(problem.to_owned()));
    }
    Client::try_from(config).map_err(|error| fault(error.to_string()))
}

/// With the service account of the pod.
pub(in crate::sources) fn in_cluster() -> Result<Client, SourceError> {
    let fault = |problem: String| SourceError::Client {
        field: "resources.inCluster",
        problem,
    };
    let config = Config::incluster().map_err(|error| fault(error.to_string()))?;
    Client::try_from(config).map_err(|error| fault(error.to_string()))
}

/// An error in a few words that may be shown to the owner of an object: no addresses, no accounts.
pub(super) fn brief(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(Error::Api(status))
        | watcher::Error::WatchStartFailed(Error::Api(status))
        | watcher::Error::WatchFailed(Error::Api(status))
        | watcher::Error::WatchError(status) => of_status(status),
        watcher::Error::InitialListFailed(Error::Auth(_))
        | watcher::Error::WatchStartFailed(Error::Auth(_)) => {
            "the gateway has no valid credentials".to_owned()
        }
        watcher::Error::InitialListFailed(Error::SerdeError(_))
        | watcher::Error::WatchFailed(Error::SerdeError(_)) => "the answer is odd".to_owned(),
        _ => "the federating cluster does not answer".to_owned(),
    }
}

fn of_status(status: &Status) -> String {
    match (status.code, status.reason.as_str()) {
        (404, _) => "404 NotFound (is the CustomResourceDefinition installed?)".to_owned(),
        (code, "") => code.to_string(),
        (code, reason) => format!("{code} {reason}"),
    }
}
