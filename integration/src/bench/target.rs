//! The ways to the API server that are compared.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;

use super::haproxy::{HOW_TO_INSTALL, Haproxy};
use super::options::Options;
use crate::Result;
use crate::client;
use crate::control_plane::ControlPlane;
use crate::gateway::{self, Cluster, Gateway, UpstreamMode};
use crate::process::Usage;

/// How long a gateway gets to drain.
pub const DRAINED: Duration = Duration::from_secs(60);

/// A way to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Way {
    /// Straight.
    Direct,
    /// Through HAProxy.
    Haproxy,
    /// Through Portcullis, which passes the caller's credential on.
    #[value(name = "portcullis")]
    PassThrough,
    /// Through Portcullis, which impersonates the caller.
    #[value(name = "portcullis-impersonate")]
    Impersonate,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Direct => "direct",
            Self::Haproxy => "haproxy",
            Self::PassThrough => "portcullis",
            Self::Impersonate => "portcullis-impersonate",
        })
    }
}

/// Where a way begins, and as whom to take it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Which way it is.
    pub way: Way,
    /// Where to connect.
    pub dial: client::Target,
    /// What stands before every path.
    pub prefix: String,
    /// The bearer token.
    pub token: String,
    /// The process in the middle.
    pub pid: Option<u32>,
}

impl Target {
    /// Straight to the API server.
    ///
    /// # Errors
    /// When the control plane has no admin.
    pub fn direct(plane: &ControlPlane) -> Result<Self> {
        Ok(Self {
            way: Way::Direct,
            dial: client::Target::url(plane.url(), plane.ca_file())?,
            prefix: String::new(),
            token: plane.user("admin")?.token.clone(),
            pid: None,
        })
    }

    /// Through a running HAProxy.
    ///
    /// # Errors
    /// When the control plane has no admin.
    pub fn haproxy(plane: &ControlPlane, haproxy: &Haproxy) -> Result<Self> {
        Ok(Self {
            way: Way::Haproxy,
            dial: client::Target::new(haproxy.address(), plane.ca_file()),
            pid: Some(haproxy.pid()),
            ..Self::direct(plane)?
        })
    }

    /// Through a running gateway.
    ///
    /// # Errors
    /// When the control plane has no admin.
    pub fn gateway(plane: &ControlPlane, gateway: &Gateway, way: Way) -> Result<Self> {
        Ok(Self {
            way,
            dial: client::Target::gateway(gateway),
            prefix: gateway.path(),
            pid: Some(gateway.pid()),
            ..Self::direct(plane)?
        })
    }

    /// What the process in the middle uses of the machine.
    ///
    /// # Errors
    /// When it has ended.
    pub fn usage(&self) -> Result<Option<Usage>> {
        self.pid.map(Usage::of).transpose()
    }
}

/// Starts a gateway in front of the control plane, as people run it: tokens are validated (and the
/// outcome cached), metrics are on, the log level is the default.
///
/// # Errors
/// When it cannot be started.
pub async fn start_gateway(plane: &ControlPlane, way: Way) -> Result<Gateway> {
    let mode = match way {
        Way::Impersonate => UpstreamMode::Impersonate,
        _ => UpstreamMode::PassThrough,
    };
    gateway::Options::new()
        .cluster(Cluster::in_mode(plane, mode)?)
        .start()
        .await
}

/// All ways, each with its process.
#[derive(Debug)]
pub struct Ways {
    /// What can be measured, [`Way::Direct`] first.
    pub targets: Vec<Target>,
    /// What cannot, and why.
    pub missing: Vec<String>,
    gateways: Vec<Gateway>,
    haproxy: Option<Haproxy>,
}

impl Ways {
    /// Starts every process in the middle that was asked for. One that is not installed is left
    /// out with a note.
    ///
    /// # Errors
    /// When one does not become ready.
    pub async fn start(plane: &ControlPlane, options: &Options) -> Result<Self> {
        let mut ways = Self {
            targets: vec![Target::direct(plane)?],
            missing: Vec::new(),
            gateways: Vec::new(),
            haproxy: None,
        };
        if options.takes(Way::Haproxy) {
            match Haproxy::start(plane).await? {
                Some(haproxy) => {
                    ways.targets.push(Target::haproxy(plane, &haproxy)?);
                    ways.haproxy = Some(haproxy);
                }
                None => ways.missing.push(HOW_TO_INSTALL.to_owned()),
            }
        }
        for way in [Way::PassThrough, Way::Impersonate] {
            if options.takes(way) {
                let gateway = start_gateway(plane, way).await?;
                ways.targets.push(Target::gateway(plane, &gateway, way)?);
                ways.gateways.push(gateway);
            }
        }
        Ok(ways)
    }

    /// The targets, beginning with another one each round.
    pub fn rotated(&self, round: u32) -> impl Iterator<Item = &Target> {
        let count = self.targets.len();
        let skip = usize::try_from(round)
            .unwrap_or(0)
            .checked_rem(count)
            .unwrap_or(0);
        self.targets.iter().cycle().skip(skip).take(count)
    }

    /// Ends all processes.
    ///
    /// # Errors
    /// When one does not end.
    pub async fn stop(self) -> Result<()> {
        for gateway in self.gateways {
            gateway.stop(DRAINED).await?;
        }
        match self.haproxy {
            Some(haproxy) => haproxy.stop().await,
            None => Ok(()),
        }
    }
}
