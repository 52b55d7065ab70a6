//! The servers of the demo, on loopback ports, with a counting proxy in front of each.

use std::path::{Path, PathBuf};

use densite_testing::{FaultProxy, Nginx, Versitygw};

use super::LINE;
use super::demo_table::Row;
use super::reader::{Reader, Server};
use super::steps::Step;
use crate::result::{About as _, Failure, Result};

/// Variables of a process.
pub(super) type Variables = Vec<(&'static str, String)>;

/// The running servers, which end with this value.
pub(super) struct Servers {
    pub(super) nginx: Nginx,
    /// The folder that nginx serves
    pub(super) root: PathBuf,
    /// The folder of versitygw's bucket
    pub(super) bucket: PathBuf,
    gateway: Versitygw,
    web_proxy: FaultProxy,
    store_proxy: FaultProxy,
}

impl Servers {
    /// Starts both, with their files in `dir`, an empty folder.
    pub(super) fn start(dir: &Path, versitygw: &Path) -> Result<Servers> {
        let [root, nginx, store] = ["root", "nginx", "store"].map(|name| dir.join(name));
        for path in [&root, &nginx, &store] {
            std::fs::create_dir(path).about("create", path)?;
        }
        let missing = |what: &str| Failure(format!("{what}: `make remote-demo` installs it"));
        let nginx =
            Nginx::start(&root, &nginx).ok_or_else(|| missing("nginx or openssl is missing"))?;
        let gateway = Versitygw::start(versitygw, &store)
            .ok_or_else(|| missing(&format!("{} has no versitygw", versitygw.display())))?;
        Ok(Servers {
            web_proxy: FaultProxy::start(nginx.port()),
            store_proxy: FaultProxy::start(gateway.port()),
            bucket: store.join("objects/bucket"),
            nginx,
            root,
            gateway,
        })
    }

    /// A file's URL on nginx, behind the proxy.
    pub(super) fn web(&self, name: &str) -> String {
        self.web_proxy.http(name)
    }

    /// The port of versitygw.
    pub(super) fn store_port(&self) -> u16 {
        self.gateway.port()
    }

    /// The port of its proxy.
    pub(super) fn counted_store_port(&self) -> u16 {
        self.store_proxy.port()
    }

    /// Credentials and address of versitygw.
    pub(super) fn store(&self) -> Variables {
        Versitygw::environment(self.store_port()).to_vec()
    }

    /// The same, behind the proxy.
    pub(super) fn counted_store(&self) -> Variables {
        Versitygw::environment(self.counted_store_port()).to_vec()
    }

    /// All steps of a reader, through a slow line.
    pub(super) fn measure(
        &self,
        reader: &Reader,
        steps: &[(usize, &Step)],
        orders: u64,
    ) -> Result<Row> {
        println!("   {}", reader.name);
        let proxy = match reader.server {
            Server::Web => &self.web_proxy,
            Server::Store => &self.store_proxy,
        };
        proxy.always(Some(LINE));
        let costs = reader.measure(steps, orders, proxy);
        proxy.always(None);
        Ok((reader.name.clone(), costs?))
    }
}
