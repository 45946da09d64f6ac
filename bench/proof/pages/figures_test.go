package pages

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// results are what pages show of the files in bench/results.
type results struct {
	peers map[string]map[string]float64 // medians by measure and contender
	e2e   map[string]measured           // by server
}

type measured struct {
	Server   string
	Variants variants
	Crowd    struct{ Variants variants }
}

type variants []variant

type variant struct {
	Name      string
	CPUToBare struct{ Median float64 }  `json:"cpu_to_bare"`
	OverBare  float64                   `json:"bytes_over_bare"`
	CPUToOwn  *struct{ Median float64 } `json:"cpu_to_own"`
}

// of returns the variant of a name.
func (all variants) of(name string) variant {
	return all[slices.IndexFunc(all, func(v variant) bool { return v.Name == name })]
}

func load(t *testing.T) results {
	var peers struct {
		Quick bool
		Rows  []struct {
			Measure string
			Figures map[string]struct {
				Median float64
				Turns  []float64
			}
		}
	}
	var e2e struct{ Servers []measured }
	for file, v := range map[string]any{"peers.json": &peers, "e2e.json": &e2e} {
		if err := json.Unmarshal([]byte(read(t, "bench/results/"+file)), v); err != nil {
			t.Fatal(file, err)
		}
	}
	r := results{map[string]map[string]float64{}, map[string]measured{}}
	for _, row := range peers.Rows {
		r.peers[row.Measure] = map[string]float64{}
		for name, f := range row.Figures {
			if len(f.Turns) < 3 || peers.Quick {
				t.Errorf("peers.json: %s of %s has %d turns, quick is %v", row.Measure, name, len(f.Turns), peers.Quick)
			}
			r.peers[row.Measure][name] = f.Median
		}
	}
	for _, s := range e2e.Servers {
		r.e2e[s.Server] = s
	}
	return r
}

// cpus are the CPU times per request of a variant of the three HTTP servers, in percent of the bare server's.
func (r results) cpus(variant string) string {
	cpu := func(server string) float64 { return 100 * r.e2e[server].Variants.of(variant).CPUToBare.Median }
	return fmt.Sprintf("%.0f, %.0f, %.0f", cpu("fasthttp"), cpu("http"), cpu("http2"))
}

// bytes is what a waiting connection of net/http takes more than on the bare server.
func (r results) bytes(variant string) string {
	return fmt.Sprintf("%+.0f", r.e2e["http"].Crowd.Variants.of(variant).OverBare)
}

// figure writes a number with two significant digits, or as an integer if it's 10 or more.
func figure(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.*f", max(0, 1-int(math.Floor(math.Log10(v)))), v)
}

// TestFigures: the README's figures are those of bench/results. It prints what they should be.
func TestFigures(t *testing.T) {
	r := load(t)
	ns := func(measure, contender string) string { return figure(r.peers[measure][contender]) + " ns" }
	var close []float64
	for _, s := range r.e2e {
		if len(s.Crowd.Variants) > 0 {
			if c := s.Crowd.Variants.of("ours").CPUToOwn; c != nil {
				close = append(close, c.Median)
			}
		}
	}
	if len(close) == 0 {
		t.Fatal("e2e.json has no crowd that is closed")
	}
	readme := read(t, "README.md")
	for _, line := range []string{
		fmt.Sprintf("an activity | %s | `SetReadDeadline`: %s; `AfterFunc`: %s", ns("reset-hot", "idlewheel"), ns("reset-hot", "SetReadDeadline"), ns("reset-hot", "AfterFunc-lazy")),
		fmt.Sprintf("a random one of 1,000,000 | %s | `AfterFunc`: %s", ns("reset-random-1M", "idlewheel"), ns("reset-random-1M", "AfterFunc-lazy")),
		fmt.Sprintf("garbage collection, 1,000,000 | %s ms | `AfterFunc`: %s ms", figure(r.peers["gc"]["idlewheel"]), figure(r.peers["gc"]["AfterFunc"])),
		fmt.Sprintf("CPU per request (bare: 100 %%): fasthttp, net/http, HTTP/2 | %s %% | own: %s %%", r.cpus("ours"), r.cpus("own")),
		fmt.Sprintf("net/http: process memory per connection | %s bytes | own: %s", r.bytes("ours"), r.bytes("own")),
		fmt.Sprintf("CPU to close thousands | %.1f to %.1f × own | 1", slices.Min(close), slices.Max(close)),
	} {
		if !strings.Contains(readme, line+"\n") {
			t.Errorf("README.md doesn't have the line\n%s", line)
		}
	}
}

// TestNanoseconds: what other pages say in nanoseconds is a decision's, with a date.
func TestNanoseconds(t *testing.T) {
	nanoseconds := regexp.MustCompile(`[0-9] (?:ns|µs)\b.*`)
	for _, page := range append(files(t, ".md"), "idle/doc.go") {
		if strings.HasPrefix(page, "docs/decisions/") || page == "README.md" || page == "CHANGELOG.md" {
			continue
		}
		for _, figure := range nanoseconds.FindAllString(read(t, page), -1) {
			t.Errorf("%s has a figure that no test compares: %q", page, figure)
		}
	}
}
