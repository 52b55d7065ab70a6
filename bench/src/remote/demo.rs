//! A demo: a database is published to a web server and to an object store, and read where it is, by
//! Densite and by other programs.

use std::path::{Path, PathBuf};

use super::demo_table;
use super::peers::{self, Place, mib};
use super::reader::{Program, Reader, Server};
use super::servers::Servers;
use super::site::{make_older, orders, publish, size};
use super::steps::{INDEXED, LOOKUP, Step, steps};
use crate::connect::{Vfs, sibling};
use crate::folder::clear;
use crate::result::{About as _, Failure, Result};
use crate::tpch;

const SF: f64 = 0.1;
const OBJECT: &str = "s3://bucket/tpch.db";

/// The folders of the demo.
#[derive(Debug, clap::Args)]
pub(crate) struct Choice {
    /// The folder of the data
    #[arg(long, default_value = "target/demo")]
    data: PathBuf,
    /// The folder of the servers' files; its content is removed
    #[arg(long, default_value = "target/remote-demo")]
    dir: PathBuf,
    /// The folder of versitygw
    #[arg(long, default_value = "target/versitygw")]
    versitygw: PathBuf,
    /// The folder of the other programs
    #[arg(long, default_value = "target/peers")]
    peers: PathBuf,
    /// Only Densite
    #[arg(long)]
    without_peers: bool,
}

/// Runs the demo.
///
/// # Errors
/// If a step of Densite fails, or any answer differs from that of the local file.
pub(crate) fn run(choice: &Choice) -> Result<()> {
    std::fs::create_dir_all(&choice.dir).about("create", &choice.dir)?;
    // The servers take paths from their own folders on.
    let dir = std::fs::canonicalize(&choice.dir).about("find", &choice.dir)?;
    clear(&dir)?;
    let plain = data(&choice.data)?;
    let servers = Servers::start(&dir, &choice.versitygw)?;
    println!(
        "2. started: nginx at {} and {}, versitygw at http://127.0.0.1:{}",
        servers.nginx.https(""),
        servers.nginx.http(""),
        servers.store_port()
    );
    println!("3. densite publish {} {OBJECT}", plain.display());
    publish(&plain, OBJECT.as_ref(), &servers.store())?;
    let published = servers.root.join("tpch.db");
    let shown = published.display();
    println!("   densite publish {} {shown}", plain.display());
    publish(&plain, published.as_os_str(), &[])?;
    let copy = servers.root.join("plain.db");
    std::fs::copy(&plain, &copy).about("copy to", &copy)?;
    for path in [&published, &copy] {
        make_older(path)?;
    }
    let peers = if choice.without_peers {
        println!("4. no other programs");
        Vec::new()
    } else {
        println!("4. the same data in the forms of other programs");
        peers::prepare(&Place {
            installed: &choice.peers,
            plain: &plain,
            servers: &servers,
            work: &dir,
        })
    };

    let orders = orders(&plain)?;
    let all = steps(orders);
    let local = Vfs::Plain.open(&plain)?;
    let is_shown = |(number, _): &(usize, &Step)| *number != INDEXED;
    let shown: Vec<_> = all.iter().enumerate().filter(is_shown).collect();
    let answers = shown.iter().map(|(_, step)| step.answer(&local));
    let expected: Vec<i64> = answers.collect::<Result<_>>()?;
    let steps: Vec<&Step> = shown.iter().map(|(_, step)| *step).collect();
    println!("5. queries through a line of 100 Mbit/s, with 30 ms for each request, by");
    let mut rows = Vec::new();
    for reader in ours(&servers, &plain, &published)? {
        rows.push(servers.measure(&reader, &shown, orders)?);
    }
    if let Some(failed) = demo_table::unfinished(&steps, &rows).first() {
        return Err(Failure(failed.clone()));
    }
    let mut remarks = Vec::new();
    for (name, reader) in peers {
        match reader {
            Ok(reader) => rows.push(servers.measure(&reader, &shown, orders)?),
            Err(why) => remarks.push(format!("{name}: {why}")),
        }
    }
    over_https(&servers, &all[LOOKUP], all[LOOKUP].answer(&local)?, orders)?;
    drop(servers);
    clear(&dir)?;

    let title = "TPC-H, scale factor 0.1";
    println!("\n{}\n", demo_table::table(title, &steps, &rows));
    remarks.extend(demo_table::unfinished(&steps, &rows));
    for remark in remarks {
        println!("{remark}");
    }
    println!("The servers are stopped, and their files are removed.");
    let wrong = demo_table::wrong(&steps, &expected, &rows);
    if !wrong.is_empty() {
        return Err(Failure(format!("wrong answers: {}", wrong.join("; "))));
    }
    println!("All answers are those of the local file.");
    Ok(())
}

/// The plain database in this folder, which is generated if it is missing.
fn data(dir: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(dir).about("create", dir)?;
    let plain = dir.join("tpch.db");
    let shown = plain.display();
    if plain.exists() {
        println!("1. TPC-H, scale factor {SF}, is in {shown} from an earlier run");
    } else {
        println!("1. generating TPC-H, scale factor {SF}, into {shown}");
        tpch::generate(SF, &plain)?;
    }
    Ok(plain)
}

/// Densite on the published file, from both servers, and on the plain file.
fn ours(servers: &Servers, plain: &Path, published: &Path) -> Result<[Reader; 3]> {
    let [small, large] = [size(published)?, size(plain)?].map(mib);
    let object = Reader {
        server: Server::Store,
        environment: servers.counted_store(),
        ..densite(format!("Densite, S3, {small}"), OBJECT, "")?
    };
    let file = servers.web("tpch.db");
    let plain = servers.web("plain.db");
    Ok([
        densite(format!("Densite, HTTP, {small}"), &file, "")?,
        object,
        densite(format!("Densite, plain file, HTTP, {large}"), &plain, "")?,
    ])
}

/// Densite on a file of nginx.
fn densite(name: String, url: &str, parameters: &str) -> Result<Reader> {
    Ok(Reader {
        name,
        server: Server::Web,
        program: Program::Extension {
            library: sibling("libdensite.so", "make ext")?,
            uri: format!("file:{url}?vfs=densite{parameters}"),
        },
        environment: Vec::new(),
    })
}

/// One lookup through TLS, where no proxy can count. Densite counts itself.
fn over_https(servers: &Servers, lookup: &Step, expected: i64, orders: u64) -> Result<()> {
    let url = servers.nginx.https("tpch.db");
    let mut ca_file = servers.nginx.ca_file().display().to_string();
    for (reserved, escaped) in [("%", "%25"), ("?", "%3f"), ("#", "%23"), ("&", "%26")] {
        ca_file = ca_file.replace(reserved, escaped);
    }
    println!("6. file:{url}?vfs=densite&ca_file={ca_file}");
    let reader = densite(
        url,
        &servers.nginx.https("tpch.db"),
        &format!("&ca_file={ca_file}"),
    )?;
    let found = reader.counted(LOOKUP, lookup, orders)?;
    if found.answer != expected {
        let answer = found.answer;
        return Err(Failure(format!(
            "over HTTPS: {answer} instead of {expected}"
        )));
    }
    println!(
        "   {}: {} requests by densite_info, {:.3} s without the slow line",
        lookup.title,
        found.requests.unwrap_or(0),
        found.seconds
    );
    Ok(())
}
