// Slowcheck reports which slow clients can hold a server. It makes one connection for each case,
// such as a header that never ends, and reports how the server ended it and when, or that it
// didn't. Beside these there are controls: honest clients that are slow, and that it must serve.
//
//	go -C bench run ./slowcheck -target https://127.0.0.1:8443 -post /upload -large /film
//	go -C bench run ./slowcheck -target http://127.0.0.1:8080 -protocol h1,ws -ws /chat -give-up 90s
//	go -C bench run ./slowcheck -field -json
//
// It isn't a load test: some ninety connections send a few bytes a second. With -at-once 1 there
// is one connection at a time. If the server isn't on this machine, -mine has to confirm that it
// is yours.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/field"
	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

func main() {
	newProgram(&config{}).Main()
}

type config struct {
	url, protocols string
	mine, field    bool
	servers        string
	target         slow.Target
	options        slow.Options
}

func newProgram(c *config) *program.Program[*report] {
	return &program.Program[*report]{
		Name: "slowcheck",
		Does: "Slowcheck reports which slow clients can hold a server: one connection for each case, and honest clients that a server must not end.",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&c.url, "target", "", "the `URL` of your server: http://, https:// or tcp:// with a host and a port")
			fs.StringVar(&c.protocols, "protocol", "", "only cases of these, with commas between them: "+strings.Join(slow.Protocols(), ", "))
			fs.DurationVar(&c.options.GiveUp, "give-up", 90*time.Second, "a case that the server has not ended by then is held; longer than your longest limit")
			fs.IntVar(&c.options.AtOnce, "at-once", 0, "how many cases to try at a time; 1 for one after the other, 0 for all")
			fs.StringVar(&c.target.Get, "get", "/", "a `path` with a small answer")
			fs.StringVar(&c.target.Post, "post", "", "a `path` that reads a body")
			fs.StringVar(&c.target.Large, "large", "", "a `path` with an answer of at least 16 MB")
			fs.StringVar(&c.target.Stream, "stream", "", "a `path` whose answer begins at once, and then is silent for a minute, as Server-Sent Events may be")
			fs.StringVar(&c.target.WS, "ws", "", "the `path` of a WebSocket that the server does not close by itself")
			fs.StringVar(&c.target.GRPC, "grpc", "", "a `method` with streams in both directions, /package.Service/Method")
			fs.BoolVar(&c.target.MQTT, "mqtt", false, "the target is a broker of MQTT")
			fs.BoolVar(&c.mine, "mine", false, "confirms that a target on another machine is yours")
			fs.BoolVar(&c.field, "field", false, "instead of a target, try the servers of the field, all at once, which are started here")
			fs.StringVar(&c.servers, "servers", "", "only these of the field, with commas between them: "+strings.Join(field.Names(), ", "))
		},
		Check: c.check,
		More: func(w io.Writer) {
			fmt.Fprintln(w, "The cases. A * marks an honest client:")
			for _, k := range slow.Cases() {
				if k.Control() {
					table.Entry(w, k.Name, fmt.Sprintf("* %s: %s", k.Does, k.Reason), 26)
				} else {
					table.Entry(w, k.Name, fmt.Sprintf("%s. Limit: %s", k.Does, k.Limit), 26)
				}
			}
		},
		Exits: "Exit status: 0 if no case was held, except harmless ones, and no honest client was cut; 1 otherwise, with -field only for servers with idlewheel; 2 if nothing could be tried, 130 after Ctrl-C.",
		Begin: func() string {
			if c.field {
				return fmt.Sprintf("slowcheck: the servers of the field, all at once, at most %v", c.options.Longest(len(c.cases())))
			}
			return fmt.Sprintf("slowcheck: %s, %d cases, at most %v", c.url, len(c.cases()), c.options.Longest(len(c.cases())))
		},
		Run: c.run,
		Files: []program.File[*report]{
			{Flag: "html", Usage: "write a page to this `file`, too", Write: writePage},
		},
	}
}

func (c *config) cases() []slow.Case { return slow.Cases(split(c.protocols)...) }

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// check checks the flags.
func (c *config) check() error {
	for _, p := range split(c.protocols) {
		if !slices.Contains(slow.Protocols(), p) {
			return fmt.Errorf("-protocol is %q; it must be some of %s", p, strings.Join(slow.Protocols(), ", "))
		}
	}
	for _, s := range split(c.servers) {
		if !slices.Contains(field.Names(), s) {
			return fmt.Errorf("-servers is %q; it must be some of %s", s, strings.Join(field.Names(), ", "))
		}
	}
	err := cmp.Or(
		program.Within("give-up", c.options.GiveUp, 5*time.Second, 10*time.Minute, ", or no limit would have passed"),
		program.Within("at-once", c.options.AtOnce, 0, 100, ""),
	)
	if err != nil {
		return err
	}
	switch {
	case c.field && c.url != "":
		return errors.New("-field and -target exclude each other; leave one out")
	case c.field:
		return nil
	case c.url == "":
		return errors.New("-target is missing; it is the URL of your server")
	}
	t, err := slow.ParseTarget(c.url)
	if err != nil {
		return fmt.Errorf("-target: %w", err)
	}
	for name, path := range map[string]string{"get": c.target.Get, "post": c.target.Post, "large": c.target.Large, "stream": c.target.Stream, "ws": c.target.WS, "grpc": c.target.GRPC} {
		if path != "" && path[0] != '/' {
			return fmt.Errorf("-%s is %q; it must begin with a slash", name, path)
		}
	}
	c.target.Scheme, c.target.Address, c.target.Host, c.target.Protocols = t.Scheme, t.Address, t.Host, split(c.protocols)
	if !t.IsLoopback() && !c.mine {
		return fmt.Errorf("-target is %s, which is no loopback address; say -mine if the server is yours, and leave others alone", c.url)
	}
	return nil
}

// run tries the target, or the field.
func (c *config) run(ctx context.Context, _ io.Writer) (*report, error) {
	if !c.field {
		results := slow.Run(ctx, c.target, c.options, c.cases())
		if r := results[0]; !slices.ContainsFunc(results, slow.Result.Tried) && ctx.Err() == nil {
			return nil, fmt.Errorf("no case could be tried on %s: %s", c.url, r.Why)
		}
		return &report{Servers: []tried{{Name: c.url, Results: results}}, failIf: func(string) bool { return true }}, ctx.Err()
	}
	r := &report{Machine: new(machine.Take(ctx)), failIf: field.IsOurs}
	var mu sync.Mutex
	var running sync.WaitGroup
	servers := field.Servers()
	all := make([]*tried, len(servers))
	for i, s := range servers {
		if only := split(c.servers); len(only) > 0 && !slices.Contains(only, s.Name) {
			continue
		}
		running.Go(func() {
			target, stop, err := s.Start()
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				r.Missing = append(r.Missing, fmt.Sprintf("%s: %v", s.Name, err))
				return
			}
			defer stop()
			all[i] = &tried{s.Name, s.Config, s.Version(), slow.Run(ctx, target, c.options, c.cases())}
		})
	}
	running.Wait()
	for _, s := range all {
		if s != nil {
			r.Servers = append(r.Servers, *s)
		}
	}
	return r, ctx.Err()
}
