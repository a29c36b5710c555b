//! Chromium, driven through chromedriver.

use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use orco_trials::{missing, skipped};
use serde_json::{Value, json};
use tempfile::TempDir;
use thirtyfour::error::WebDriverResult;
use thirtyfour::{By, ChromeCapabilities, ChromiumLikeCapabilities, DesiredCapabilities, WebDriver};

use crate::browser::camera::Film;
use crate::support::service::Service;

/// Longest time that anything on the page may take.
const TIMEOUT: Duration = Duration::from_secs(180);

/// How often a driver or a browser is started before its test fails.
const ATTEMPTS: usize = 3;

/// chromedriver, until it is dropped.
pub struct Driver {
    url: String,
    process: Child,
}

impl Driver {
    /// `None` where it is not installed, unless ORCO_BROWSER says that it must be.
    ///
    /// Asked for any port, chromedriver takes one that is free for IPv4 and ends if IPv6 has given the same number
    /// away, which happens where many tests start servers.
    pub fn start() -> Option<Self> {
        for _ in 0..ATTEMPTS {
            let started = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).spawn();
            let mut process = match started {
                Ok(process) => process,
                Err(error) => {
                    missing("ORCO_BROWSER", "the page in a browser", &format!("chromedriver does not start: {error}"));
                    return None;
                }
            };
            let lines = BufReader::new(process.stdout.take().unwrap()).lines();
            let port = lines.map(Result::unwrap).find_map(|line| {
                let port = line.strip_prefix("ChromeDriver was started successfully on port ")?;
                Some(port.trim_end_matches('.').to_owned())
            });
            match port {
                Some(port) => return Some(Self { url: format!("http://127.0.0.1:{port}"), process }),
                None => println!("chromedriver found no port: {}", process.wait().unwrap()),
            }
        }
        panic!("chromedriver ended {ATTEMPTS} times before it said its port");
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It takes its browsers along; killed, it would leave them.
        let address = self.url.trim_start_matches("http://");
        let asked = TcpStream::connect(address).and_then(|mut stream| {
            write!(stream, "GET /shutdown HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
            stream.read_to_end(&mut Vec::new())
        });
        if asked.is_err() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// How a browser shows the page.
#[derive(Clone, Copy)]
pub struct ViewOptions<'a> {
    pub size: (u32, u32),
    pub mobile: bool,
    pub dark: bool,
    pub language: &'a str,
    pub camera: Option<&'a Film>,
}

pub const DESK: ViewOptions<'static> =
    ViewOptions { size: (1280, 900), mobile: false, dark: false, language: "en", camera: None };
pub const PHONE: ViewOptions<'static> = ViewOptions { size: (390, 844), mobile: true, ..DESK };

/// A browser that shows the page, with a profile of its own.
pub struct Browser {
    driver: WebDriver,
    _profile: TempDir,
}

/// Runs what a test does in browsers.
pub fn run(work: impl Future<Output = WebDriverResult<()>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work).unwrap();
}

/// The accessibility checker's script.
pub fn axe() -> Option<String> {
    let path = env::var_os("ORCO_AXE").map(PathBuf::from);
    let Some(path) = path else {
        skipped("accessibility of the page: ORCO_AXE names no axe.min.js (cargo xtask setup)");
        return None;
    };
    Some(fs::read_to_string(path).unwrap())
}

/// Starts a browser. On a busy machine Chromium sometimes exits before its driver reaches it.
async fn start(driver: &Driver, capabilities: ChromeCapabilities) -> WebDriverResult<WebDriver> {
    let mut attempt = 1;
    loop {
        match WebDriver::new(&driver.url, capabilities.clone()).await {
            Err(error) if attempt == ATTEMPTS => return Err(error),
            Err(error) => println!("attempt {attempt} of {ATTEMPTS} to start Chromium: {error}"),
            started => return started,
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        attempt += 1;
    }
}

impl Browser {
    pub async fn open(driver: &Driver, service: &Service, options: ViewOptions<'_>) -> WebDriverResult<Self> {
        let profile = TempDir::new().unwrap();
        let (width, height) = options.size;
        let mut arguments = vec![
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-quic".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--no-first-run".to_owned(),
            "--use-fake-ui-for-media-stream".to_owned(),
            format!("--blink-settings=preferredColorScheme={}", if options.dark { 0 } else { 1 }),
            format!("--lang={}", options.language),
            format!("--window-size={width},{height}"),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        if let Some(Film(path)) = options.camera {
            arguments.push("--use-fake-device-for-media-stream".to_owned());
            arguments.push(format!("--use-file-for-fake-video-capture={}", path.display()));
        }
        let mut capabilities = DesiredCapabilities::chrome();
        arguments.iter().try_for_each(|argument| capabilities.add_arg(argument))?;
        if options.mobile {
            let metrics = json!({ "width": width, "height": height, "pixelRatio": 2.0, "touch": true, "mobile": true });
            capabilities.add_experimental_option("mobileEmulation", json!({ "deviceMetrics": metrics }))?;
        }
        let driver = start(driver, capabilities).await?;
        // Chosen before the page is there, so that it need not be loaded twice.
        let choose = format!("try {{ localStorage.language ??= '{}' }} catch {{}}", options.language);
        let on_every_page = json!({ "source": choose });
        driver.cdp().send_raw("Page.addScriptToEvaluateOnNewDocument", on_every_page).await?;
        driver.goto(&service.url).await?;
        let browser = Self { driver, _profile: profile };
        browser.connected().await?;
        Ok(browser)
    }

    async fn connected(&self) -> WebDriverResult<()> {
        self.until("document.getElementById('bundle').textContent !== ''").await
    }

    pub async fn reload(&self) -> WebDriverResult<()> {
        self.driver.refresh().await?;
        self.connected().await
    }

    /// From now on the page comes over a network of that speed, and nothing of it from the cache.
    pub async fn slow_down(&self, latency: Duration, bytes_per_second: u32) -> WebDriverResult<()> {
        let tools = self.driver.cdp();
        tools.send_raw("Network.enable", json!({})).await?;
        tools.send_raw("Network.setCacheDisabled", json!({ "cacheDisabled": true })).await?;
        let conditions = json!({
            "offline": false, "latency": latency.as_millis() as u64,
            "downloadThroughput": bytes_per_second, "uploadThroughput": bytes_per_second,
        });
        tools.send_raw("Network.emulateNetworkConditions", conditions).await?;
        Ok(())
    }

    /// From now on the system chooses the colours, as for people who need much contrast.
    pub async fn force_colours(&self) -> WebDriverResult<()> {
        let features = json!([{ "name": "forced-colors", "value": "active" }]);
        self.driver.cdp().send_raw("Emulation.setEmulatedMedia", json!({ "features": features })).await?;
        Ok(())
    }

    /// Goes to a page of somebody else.
    pub async fn visit(&self, url: &str) -> WebDriverResult<()> {
        self.driver.goto(url).await
    }

    pub async fn close(self) -> WebDriverResult<()> {
        self.driver.quit().await
    }

    async fn execute(&self, script: &str, arguments: Vec<Value>) -> WebDriverResult<Value> {
        Ok(self.driver.execute(script, arguments).await?.json().clone())
    }

    /// What an expression is on the page.
    pub async fn value(&self, expression: &str) -> WebDriverResult<Value> {
        self.execute(&format!("return {expression}"), Vec::new()).await
    }

    /// Waits until an expression is true on the page.
    pub async fn until(&self, expression: &str) -> WebDriverResult<()> {
        let started = Instant::now();
        while self.value(expression).await? != true {
            if started.elapsed() > TIMEOUT {
                let shown = self.value("document.body.innerText").await?;
                panic!("never came true: {expression}; the page shows: {shown}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    pub async fn text(&self, id: &str) -> WebDriverResult<String> {
        self.driver.find(By::Id(id)).await?.text().await
    }

    pub async fn click(&self, id: &str) -> WebDriverResult<()> {
        self.click_css(&format!("#{id}")).await
    }

    pub async fn click_css(&self, selector: &str) -> WebDriverResult<()> {
        let started = Instant::now();
        loop {
            self.until(&format!("document.querySelector('{selector}')?.disabled === false")).await?;
            // The page may be drawing it anew just now.
            match self.driver.find(By::Css(selector)).await?.click().await {
                Err(error) if started.elapsed() > TIMEOUT => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Writes into a field in place of what it holds.
    pub async fn write(&self, id: &str, text: &str) -> WebDriverResult<()> {
        let field = self.driver.find(By::Id(id)).await?;
        field.clear().await?;
        field.send_keys(text).await
    }

    /// Writes where a field's caret is.
    pub async fn send_keys(&self, selector: &str, text: &str) -> WebDriverResult<()> {
        self.driver.find(By::Css(selector)).await?.send_keys(text).await
    }

    /// Presses a key on a control.
    pub async fn press(&self, selector: &str, key: &str) -> WebDriverResult<()> {
        let started = Instant::now();
        loop {
            // The page may be drawing it anew just now.
            match self.send_keys(selector, key).await {
                Err(error) if started.elapsed() > TIMEOUT => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Chooses a file in place of those that were chosen before.
    pub async fn choose_file(&self, id: &str, path: &Path) -> WebDriverResult<()> {
        self.value(&format!("document.getElementById('{id}').value = ''")).await?;
        self.driver.find(By::Id(id)).await?.send_keys(path.display().to_string()).await
    }

    /// Shows a tab's panel.
    pub async fn show_tab(&self, tab: &str) -> WebDriverResult<()> {
        self.click(&format!("tab-{tab}")).await?;
        self.until(&format!("!document.getElementById('panel-{tab}').hidden")).await
    }

    pub async fn start_camera(&self) -> WebDriverResult<()> {
        self.click("camera").await?;
        self.until("document.getElementById('video').videoWidth > 0").await
    }

    /// Holds a button down until an expression is true.
    pub async fn hold_until(&self, id: &str, expression: &str) -> WebDriverResult<()> {
        self.until(&format!("!document.getElementById('{id}').disabled")).await?;
        let button = self.driver.find(By::Id(id)).await?;
        button.scroll_into_view().await?;
        self.driver.action_chain().click_and_hold_element(&button).perform().await?;
        let done = self.until(expression).await;
        self.driver.action_chain().release().perform().await?;
        done
    }

    /// Fails where axe finds anything that keeps people from reading or using the page.
    pub async fn check(&self, axe: &str, view: &str) -> WebDriverResult<()> {
        // A page keeps it until it is loaded anew.
        if self.value("typeof axe").await? == "undefined" {
            self.execute(axe, Vec::new()).await?;
        }
        let script =
            "const done = arguments[0]; axe.run().then(found => done(found.violations), error => done(String(error)))";
        let found = self.driver.execute_async(script, Vec::new()).await?.json().clone();
        let describe = |rule: &Value| {
            format!(
                "{}: {}",
                rule["help"],
                rule["nodes"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|node| node["html"].to_string())
                    .collect::<Vec<_>>()
                    .join(" ")
            )
        };
        let rules = found.as_array().unwrap_or_else(|| panic!("axe on {view}: {found}"));
        assert!(rules.is_empty(), "{view}: {}", rules.iter().map(describe).collect::<Vec<_>>().join("; "));
        Ok(())
    }

    /// Keeps a picture of the view, where ORCO_SCREENSHOTS names a folder.
    pub async fn keep(&self, name: &str) -> WebDriverResult<()> {
        let Some(folder) = env::var_os("ORCO_SCREENSHOTS") else { return Ok(()) };
        self.execute("scrollTo(0, 0)", Vec::new()).await?;
        fs::write(Path::new(&folder).join(format!("{name}.png")), self.driver.screenshot_as_png().await?).unwrap();
        Ok(())
    }
}
