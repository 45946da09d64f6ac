//go:build proof

// Package browser looks at the page of idledebug with a real browser.
package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/idlewheel/idlewheel/adapters/idledebug"
	"github.com/idlewheel/idlewheel/idle"
)

// TestPageInBrowser looks at a tracker with a real browser, also while it's drained.
// PAGE_SCREENSHOT names a file for a picture of the page.
func TestPageInBrowser(t *testing.T) {
	b := openBrowser(t)
	address, tracker, stop := serveLoad(t, 20_000)
	b.watch(address)

	b.await("all are live", `number("#live") > 15000`)
	b.await("the census has counted them", `number("#in-60") > 0 && document.querySelectorAll("#idle-histogram .bucket").length > 1`)
	b.await("ends appear", `document.querySelectorAll("#ends tbody tr").length > 3 && text("#reasons").includes("Heartbeat")`)
	b.await("counts move", `text("#ended") !== "-" && number("#ended") > 0 && document.querySelector("#ended-spark .line").getAttribute("d").length > 20`)
	b.await("the most idle are listed", `rows().length === 20 && sorted() === "idle"`)

	b.press("the list is sorted by age", `th[data-sort="age"] button`, kb.Enter, `sorted() === "age" && rows().length === 20`)
	b.press("the second page", "#following", " ", `text("#where").startsWith("2 of") && rows().length > 0`)
	b.press("the last page", "#last", kb.Enter, `text("#where").split(" of ")[0] === text("#where").split(" of ")[1]`)
	b.press("the first page", "#first", kb.Enter, `text("#where").startsWith("1 of") && rows().length === 20`)
	b.press("the list is sorted by idle time", `th[data-sort="idle"] button`, " ", `sorted() === "idle"`)
	b.await("no horizontal scroll", `document.documentElement.scrollWidth <= innerWidth`)
	b.do("narrow", chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	b.await("none on a phone", `document.documentElement.scrollWidth <= 360`)
	b.do("wide again", chromedp.EmulateViewport(1180, 1340))

	if pictureFile() != "" {
		b.do("something to show", chromedp.Sleep(70*time.Second))
	}
	drain(t, tracker, 25*time.Second)
	b.await("the drain is under way", `!document.querySelector("#drain").hidden && text("#drain").includes("A drain is under way")`)
	b.await("connections end by it", `text("#reasons").includes("drain") && number("#live") < 5000`)
	b.picture()
	b.await("the drain has finished", `document.querySelector("#drain").hidden && text("#live") === "0"`)

	b.evaluate("the page is hidden", `Object.defineProperty(document, "hidden", { value: true, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`)
	before := b.requests()
	b.do("a while", chromedp.Sleep(2500*time.Millisecond))
	if n := b.requests() - before; n > 0 {
		t.Errorf("the page sent %d requests though nobody saw it", n)
	}
	b.evaluate("the page is seen", `delete document.hidden; performance.clearResourceTimings(); document.dispatchEvent(new Event("visibilitychange"))`)
	b.await("it is up to date", `performance.getEntriesByType("resource").length > 0 && text("#status") === "Live"`)
	b.check()

	stop()
	b.await("the server is gone", `!document.querySelector("#trouble").hidden && text("#trouble").includes("has not answered since")`)
}

// TestTwoTrackersInBrowser chooses another tracker, which does not answer: nothing of the
// first one may be left. Labels are hostile.
func TestTwoTrackersInBrowser(t *testing.T) {
	b := openBrowser(t)
	trackers := map[string]*idle.Tracker{}
	for _, name := range []string{"A", "B"} {
		trackers[name] = newTracker(t, idle.Policy{Name: "open", NoInterrupt: true, IdleTimeout: time.Hour})
		for _, label := range []string{"<img src=x onerror=alert(1)>", "a\u202eb\nc"} {
			must(t, trackers[name].Track(&idle.Conn{}, name+label, hooks))
		}
	}
	release := make(chan struct{})
	address, _ := serve(t, trackers, func(r *http.Request) {
		if r.URL.Query().Get("tracker") == "B" {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	})
	b.watch(address)
	b.await("the rows of A", `rows().length === 2 && document.querySelectorAll("#phases tbody tr").length === 1`)
	b.await("its labels are text", `!document.querySelector("td img") && text("#connections").includes("A<img src=x onerror=alert(1)>") && text("#connections").includes("Aa\\u{202e}b\\u{a}c")`)
	drain(t, trackers["A"], time.Hour)
	b.await("the drain of A", `!document.querySelector("#drain").hidden`)
	b.evaluate("choose B", `(() => { const s = document.querySelector("#tracker"); s.value = "B"; s.dispatchEvent(new Event("change")); return true })()`)
	b.await("nothing of A is left", `rows().length === 0 && !document.querySelector("#phases tbody tr") && document.querySelector("#drain").hidden`)
	close(release)
	b.await("the rows of B", `rows().length === 2 && text("#connections").includes("B<img")`)
	b.check()
}

// TestTextsInBrowser: numbers are written as people write them.
func TestTextsInBrowser(t *testing.T) {
	b := openBrowser(t)
	address, _, _ := serveLoad(t, 10)
	b.watch(address)
	b.evaluate("the module", `import("./text.js").then(m => { globalThis.texts = m }); true`)
	b.await("it's there", `globalThis.texts !== undefined`)
	for script, want := range map[string]string{
		"duration(0.00014)": "140 µs", "duration(0.0000025)": "2.5 µs", "duration(0.00099951)": "1 ms", "duration(0.0025)": "2.5 ms", "duration(0.00997)": "10 ms",
		"duration(0.99951)": "1 s", "duration(1)": "1 s", "duration(9.97)": "10 s", "duration(59.7)": "1 min", "duration(0)": "0 s",
		"upTo(0)": "< 1 ms", "upTo(0.00000095)": "< 1 ms", "upTo(0.015625)": "≤ 16 ms",
		`counted(1, "peer")`: "1 peer", `counted(0, "peer")`: "0 peers", `counted(1200, "connection")`: "1,200 connections",
	} {
		got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String(texts."+script+")"))
		if err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", script, got, want, err)
		}
	}
}

// TestNamesInBrowser makes the page narrow. It must not break the names of phases and limits inside a word. It must
// also say "1 peer", not "1 peers".
func TestNamesInBrowser(t *testing.T) {
	b := openBrowser(t)
	tracker := newTracker(t, idle.Policy{Name: "request header", NoInterrupt: true, IdleTimeout: time.Hour, WriteTimeout: time.Hour, Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute, Passive: true}})
	c := new(idle.Conn)
	must(t, tracker.Track(c, t, &idle.Hooks{Expire: hooks.Expire, Unsent: func(any) int { return 1000 }}))
	c.AwaitWrite()
	drain(t, tracker, time.Hour)
	address, _ := serve(t, map[string]*idle.Tracker{"chat": tracker}, nil)
	b.do("narrow", chromedp.EmulateViewport(320, 740, chromedp.EmulateMobile))
	b.watch(address)
	b.await("the phase", `text("#phases").includes("request header")`)
	b.await("one connection", `text("#drain") === "A drain is under way. 1 connection is left."`)
	b.await("one peer", `text("#census-note").includes("wait for 1 peer that reads slowly.")`)
	b.await("words are whole", `[...document.querySelectorAll("#phases td.label, #phases .limit span")].every(e => {
		const node = e.firstChild, range = document.createRange();
		return [...node.textContent.matchAll(/\w+/g)].every(m => {
			range.setStart(node, m.index);
			range.setEnd(node, m.index + m[0].length);
			return range.getClientRects().length === 1;
		});
	})`)
	b.check()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var hooks = &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}}

func newTracker(t *testing.T, p idle.Policy) *idle.Tracker {
	t.Helper()
	tracker, err := idle.New(p, &idle.Options{Label: func(owner any) string { return fmt.Sprint(owner) }})
	must(t, err)
	t.Cleanup(func() { tracker.Close() })
	return tracker
}

func drain(t *testing.T, tracker *idle.Tracker, d time.Duration) {
	t.Helper()
	_, err := tracker.Drain(idle.Drain{Duration: d})
	must(t, err)
}

// serve serves the page, until stop is called or the test ends. A request may wait before.
func serve(t *testing.T, trackers map[string]*idle.Tracker, before func(*http.Request)) (address string, stop func()) {
	t.Helper()
	page, err := idledebug.New(trackers, nil)
	must(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before != nil {
			before(r)
		}
		page.ServeHTTP(w, r)
	}))
	stop = func() {
		server.CloseClientConnections()
		server.Close()
	}
	t.Cleanup(stop)
	return server.URL + "/", stop
}

// serveLoad serves the page of a tracker with mock connections. Four in ten are active, one in ten
// ends by its heartbeat, and the others fall silent.
func serveLoad(t *testing.T, conns int) (address string, tracker *idle.Tracker, stop func()) {
	tracker = newTracker(t, idle.Policy{Name: "open", IdleTimeout: 8 * time.Second})
	beating, err := tracker.Phase(idle.Policy{Name: "beating", Heartbeat: idle.Heartbeat{Interval: 2 * time.Second, Timeout: time.Second, Passive: true}})
	must(t, err)
	all := make([]idle.Conn, conns)
	for i := range all {
		must(t, tracker.Track(&all[i], i, hooks))
		if i%10 == 9 {
			all[i].Enter(beating)
		}
	}
	go func() {
		for n := 0; t.Context().Err() == nil; n++ {
			for i := range all {
				if active := i%10 < 4 || n*1000 < i; active && i%10 < 9 { // the silent ones fall silent one after the other
					all[i].Touch()
				} else if i%10 == 9 && n*1000 < i {
					all[i].Beat()
				}
			}
			time.Sleep(time.Second)
		}
	}()
	address, stop = serve(t, map[string]*idle.Tracker{"load": tracker}, nil)
	return address, tracker, stop
}

// A browser is one that looks at a page.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string // what was on the console, and requests that went elsewhere
	asked int      // requests
}

// openBrowser starts chromium. It skips the test if there is none.
func openBrowser(t *testing.T) *browser {
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium; install it from the packages of the distribution: apt-get install chromium")
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1180, 1500),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	if os.Geteuid() == 0 {
		flags = append(flags, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, flags...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return &browser{t: t, ctx: ctx}
}

// helpers are for the conditions that are awaited.
const helpers = `
	globalThis.text = s => document.querySelector(s).textContent;
	globalThis.number = s => Number(text(s).replaceAll(",", ""));
	globalThis.rows = () => document.querySelectorAll("#connections tbody tr");
	globalThis.sorted = () => document.querySelector("[aria-sort]").dataset.sort;
	true`

// watch opens the page at an address, and notes from then on what goes wrong.
func (b *browser) watch(address string) {
	home, err := url.Parse(address)
	must(b.t, err)
	err = chromedp.Listen(b.ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			b.asked++
			if u, err := url.Parse(e.Request.URL); err != nil || u.Host != home.Host {
				b.wrong = append(b.wrong, "a request to "+e.Request.URL)
			}
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
				for _, a := range e.Args {
					b.wrong = append(b.wrong, fmt.Sprintf("on the console: %s %s", a.Value, a.Description))
				}
			}
		case *runtime.EventExceptionThrown:
			b.wrong = append(b.wrong, fmt.Sprintf("thrown: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
		case *log.EventEntryAdded:
			late := strings.Contains(e.Entry.Text, "status of 503") // the census, on a busy machine
			if !late && (e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning) {
				b.wrong = append(b.wrong, "logged: "+e.Entry.Text+" "+e.Entry.URL)
			}
		}
	})
	must(b.t, err)
	_, err = chromedp.Call(b.ctx, network.Enable, network.EnableParams{})
	must(b.t, err)
	b.do("open the page", chromedp.Navigate(address))
	b.evaluate("helpers", helpers)
}

// do carries out actions.
func (b *browser) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.check()
		b.t.Fatalf("%s: %v", what, err)
	}
}

// evaluate runs a script.
func (b *browser) evaluate(what, script string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](script)); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// await waits until a condition holds.
func (b *browser) await(what, condition string) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](condition, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(time.Minute)))
	if err != nil {
		shown, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText`))
		b.check()
		b.t.Fatalf("%s: %v; the page shows\n%s", what, err, shown)
	}
}

// press presses a key on an element, and waits for what comes of it.
func (b *browser) press(what, element, key, condition string) {
	b.t.Helper()
	b.do(what, chromedp.Focus(element), chromedp.KeyEvent(key))
	b.await(what, condition)
}

// pictureFile is where a screenshot goes, or empty.
func pictureFile() string { return os.Getenv("PAGE_SCREENSHOT") }

// picture writes the screenshot.
func (b *browser) picture() {
	if pictureFile() == "" {
		return
	}
	b.evaluate("scroll to the top", `document.activeElement.blur(); scrollTo(0, 0); true`)
	b.do("until bars have moved", chromedp.Sleep(500*time.Millisecond))
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	must(b.t, err)
	must(b.t, os.WriteFile(pictureFile(), png, 0o644))
}

// requests returns how many were sent.
func (b *browser) requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// check fails the test if something went wrong.
func (b *browser) check() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.wrong {
		b.t.Error(w)
	}
	if b.asked == 0 {
		b.t.Error("no request was seen; the test does not see the network")
	}
}
