// Slowcheck reports which slow clients can hold a server. It makes one connection for each
// way of being slow, such as a header that never ends, and reports how and when the server
// ended it, or that it didn't. Beside these there are honest clients that are slow for a
// good reason, and that a server must not end.
//
//	go -C bench run ./slowcheck -target https://127.0.0.1:8443 -post /upload -large /film
//	go -C bench run ./slowcheck -target http://127.0.0.1:8080 -load 2000
//	go -C bench run ./slowcheck -compare
//
// It isn't a load test: some sixty connections send a few bytes per second. With -load, a
// crowd of slow clients holds the server while honest clients make requests. If the server
// isn't on this machine, -mine has to confirm that it is yours.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

func main() { newProgram().Main() }

type config struct {
	url     string
	mine    bool
	compare bool
	load    int
	giveUp  time.Duration // after which a case counts as held
	target  target
}

func newProgram() *program.Program[*report] {
	c := &config{}
	return &program.Program[*report]{
		Name: "slowcheck",
		Does: "Slowcheck reports which slow clients can hold a server: one connection for each way of being\nslow, and honest clients that a server must not end.",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&c.url, "target", "", "the `URL` of your server: http:// or https:// with a host and a port")
			fs.DurationVar(&c.giveUp, "give-up", 90*time.Second, "a client that the server has not ended by then holds it; longer than your longest limit")
			fs.StringVar(&c.target.get, "get", "/", "a `path` with a small answer")
			fs.StringVar(&c.target.post, "post", "", "a `path` that reads a body")
			fs.StringVar(&c.target.large, "large", "", "a `path` with an answer of at least 16 MB")
			fs.StringVar(&c.target.stream, "stream", "", "a `path` whose answer begins at once, and then is silent for a minute, as Server-Sent Events may be")
			fs.IntVar(&c.load, "load", 0, "instead, how many slow clients hold the server while honest ones make requests")
			fs.BoolVar(&c.mine, "mine", false, "confirms that a target on another machine is yours")
			fs.BoolVar(&c.compare, "compare", false, "instead of a target, try servers that are started here: "+strings.Join(contestants(), ", "))
		},
		Check: c.check,
		Begin: func() string {
			return fmt.Sprintf("slowcheck: %s, at most %v", cmp.Or(c.url, "servers of this machine"), c.giveUp+drainTime)
		},
		Run: c.run,
	}
}

func (c *config) check() error {
	err := cmp.Or(
		program.Within("give-up", c.giveUp, 5*time.Second, 10*time.Minute, ", or no limit would have passed"),
		program.Within("load", c.load, 0, 50_000, "; 0 is for one of each"),
	)
	switch {
	case err != nil || c.compare && c.url == "":
		return err
	case c.compare:
		return fmt.Errorf("-compare and -target exclude each other; leave one out")
	case c.url == "":
		return fmt.Errorf("-target is missing; it is the URL of your server")
	}
	for name, path := range map[string]string{"get": c.target.get, "post": c.target.post, "large": c.target.large, "stream": c.target.stream} {
		if path != "" && path[0] != '/' {
			return fmt.Errorf("-%s is %q; it must begin with a slash", name, path)
		}
	}
	if err := c.target.parse(c.url); err != nil {
		return err
	}
	if !c.target.isLoopback() && !c.mine {
		return fmt.Errorf("-target is %s, which is no loopback address; say -mine if the server is yours, and leave others alone", c.url)
	}
	if c.load > 0 {
		return machine.Enough("load", c.load, 1, 200)
	}
	return nil
}

// run tries the target, or the servers of a comparison, all at the same time.
func (c *config) run(ctx context.Context, show func(string, ...any)) (*report, error) {
	r := &report{Machine: machine.Here("github.com/valyala/fasthttp")}
	if !c.compare {
		tried := tried{Name: c.url, ours: true}
		if c.load > 0 {
			tried.Results, tried.Load = c.attack(ctx)
		} else {
			tried.Results = tryAll(ctx, c.target, c.giveUp, cases())
		}
		if r := tried.Results[0]; !slices.ContainsFunc(tried.Results, result.tried) && ctx.Err() == nil {
			return nil, fmt.Errorf("nothing could be tried on %s: %s", c.url, r.Why)
		}
		r.Servers = append(r.Servers, tried)
		return r, ctx.Err()
	}
	all := make([]tried, len(contestants()))
	var running sync.WaitGroup
	for i, name := range contestants() {
		running.Go(func() {
			all[i] = tried{Name: name, ours: strings.HasPrefix(name, "idle")}
			s, err := startContestant(name)
			if err != nil {
				all[i].Missing = err.Error()
				return
			}
			defer s.stop()
			all[i].Config, all[i].Results = s.config, tryAll(ctx, s.target, c.giveUp, cases())
		})
	}
	running.Wait()
	r.Servers = all
	return r, ctx.Err()
}

// A load is how honest clients fared beside slow ones.
type load struct {
	Slow   int           `json:"slow_clients"`
	Served int           `json:"requests_served"` // of honest clients
	Failed int           `json:"requests_failed"`
	MS     stats.Summary `json:"answer_ms"`
}

// attack holds the target with slow clients of all kinds that a server doesn't end at once,
// while ten honest ones make a request every 100 ms, each over a new connection, from when
// the slow ones are there.
func (c *config) attack(ctx context.Context) ([]result, *load) {
	kinds := slices.DeleteFunc(cases(), func(k slowCase) bool { return k.honest || k.soon || c.target.lacks(k) != "" })
	crowd := make([]slowCase, c.load)
	for i := range crowd {
		crowd[i] = kinds[i%len(kinds)]
	}
	attacking, peace := context.WithCancel(ctx)
	defer peace()
	asking, enough := context.WithTimeout(ctx, c.giveUp-2*time.Second)
	defer enough()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: server.ClientTLS()}}
	l := &load{Slow: c.load}
	var took stats.Spread
	var mu sync.Mutex
	var honest sync.WaitGroup
	for range 10 {
		honest.Go(func() {
			for ok := program.Sleep(asking, 2*time.Second); ok; ok = program.Sleep(asking, 100*time.Millisecond) {
				begun := time.Now()
				resp, err := client.Get(c.url + c.target.get)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				mu.Lock()
				if err != nil || resp.StatusCode >= 400 {
					l.Failed++
				} else {
					l.Served++
					took.Add(time.Since(begun))
				}
				mu.Unlock()
			}
		})
	}
	results := tryAll(attacking, c.target, c.giveUp, crowd)
	enough()
	honest.Wait()
	l.MS = took.Summary()
	return results, l
}

// A report is what -json prints.
type report struct {
	Machine machine.Machine `json:"machine"`
	Servers []tried         `json:"servers"`
}

type tried struct {
	Name    string   `json:"name"`
	Config  string   `json:"config,omitempty"`  // in a sentence
	Missing string   `json:"missing,omitempty"` // why it could not be started here
	Results []result `json:"results"`
	Load    *load    `json:"load,omitempty"`

	ours bool // a client that holds it is a failure
}

func (r *report) Status() int {
	for _, s := range r.Servers {
		if s.ours && (slices.ContainsFunc(s.Results, result.bad) || s.Load != nil && s.Load.Failed > 0) {
			return program.Fail
		}
	}
	return program.Pass
}

func (r *report) Table(w io.Writer) {
	fmt.Fprintln(w, r.Machine)
	for _, s := range r.Servers {
		s.table(w)
	}
	if len(r.Servers) == 1 {
		return
	}
	rows := [][]string{{"server", "ended", "held", "honest ones served", "cut"}}
	for _, s := range r.Servers {
		n := s.counts()
		rows = append(rows, []string{s.Name, fmt.Sprint(n[ended]), fmt.Sprint(n[held]), fmt.Sprint(n[served]), fmt.Sprint(n[cut])})
	}
	table.Write(w, "Which slow clients each server ended, and which honest ones it served", rows...)
}

// table has a row for each case that was tried, and says what the others lack.
func (s *tried) table(w io.Writer) {
	if s.Missing != "" {
		fmt.Fprintf(w, "\n%s was not tried: %s\n", s.Name, s.Missing)
		return
	}
	n := s.counts()
	if l := s.Load; l != nil {
		fmt.Fprintf(w, "\nOf %s slow clients the server ended %s, and %s held it to the end. Of the honest requests %s were served, median %v ms, p99 %v ms, and %s failed.\n",
			table.Group(l.Slow), table.Group(n[ended]), table.Group(n[held]), table.Group(l.Served), l.MS.P50, l.MS.P99, table.Group(l.Failed))
		return
	}
	rows := [][]string{{"client", "outcome", "after s", "what it does, and what should end it"}}
	untried := map[string][]string{} // by why
	for _, r := range s.Results {
		if !r.tried() {
			untried[r.Why] = append(untried[r.Why], r.Name)
			continue
		}
		after, what := "", r.Does+": "+r.Limit
		if r.After > 0 {
			after = fmt.Sprintf("%.1f", r.After)
		}
		if r.honest {
			what = "honest: " + r.Does
		}
		rows = append(rows, []string{r.Name, strings.TrimSpace(r.Outcome + " " + r.By), after, what})
	}
	table.Write(w, s.Name+" "+s.Config, rows...)
	for _, why := range slices.Sorted(maps.Keys(untried)) {
		fmt.Fprintf(w, "Not tried, because %s: %s.\n", why, strings.Join(untried[why], ", "))
	}
	fmt.Fprintf(w, "%d slow clients were ended, %d held the server; %d honest ones were served, %d cut.\n", n[ended], n[held], n[served], n[cut])
}

// counts returns how many results have which outcome.
func (s *tried) counts() map[string]int {
	n := map[string]int{}
	for _, r := range s.Results {
		n[r.Outcome]++
	}
	return n
}
