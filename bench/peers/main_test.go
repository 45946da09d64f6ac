package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
)

// TestMain lets the test's binary run a turn, as the program itself does
// otherwise.
func TestMain(m *testing.M) {
	child.Main(roles())
	os.Exit(m.Run())
}

// invoke runs the program with args.
func invoke(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = newProgram(&config{}).Invoke(context.Background(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func parse(args string) (config, error) {
	var c config
	err := newProgram(&c).Parse(strings.Fields(args))
	return c, err
}

func TestQuick(t *testing.T) {
	html, svg := filepath.Join(t.TempDir(), "peers.html"), filepath.Join(t.TempDir(), "cost.svg")
	status, stdout, stderr := invoke("-quick", "-json", "-html", html, "-svg", svg, "-run", "^reset-(hot|random-1k)/(idlewheel|AfterFunc)$")
	if status != program.Pass || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var got report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if len(got.Rows) != 4 {
		t.Errorf("%d rows, want 4", len(got.Rows))
	}
	for _, r := range got.Rows {
		if r.Median == nil || *r.Median <= 0 || r.N != quickRounds || r.Early != 0 || r.Unit != "ns" {
			t.Errorf("%+v", r)
		}
	}
	page, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", ">idlewheel<", "</html>"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page has no %s", want)
		}
	}
	plot, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(plot, new(struct {
		XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
	})); err != nil || !bytes.Contains(plot, []byte(">AfterFunc<")) {
		t.Errorf("the plot: %v", err)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-rounds -1", "-rounds is -1; it must be 1 to 1000"},
		{"-rounds 100000", "-rounds is 100000"},
		{"-run (", `-run is "("`},
		{"-run nobody", `-run is "nobody"; it matches nothing`},
	} {
		status, stdout, stderr := invoke(strings.Fields(c.args)...)
		if status != program.Trouble || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q on stdout, %q on stderr; want %q", c.args, status, stdout, stderr, c.want)
		}
	}
}

func TestRounds(t *testing.T) {
	for args, want := range map[string]int{"": fullRounds, "-quick": quickRounds, "-quick -rounds 9": 9} {
		c, err := parse(args)
		if err != nil || c.rounds != want {
			t.Errorf("%q: %d rounds, %v; want %d", args, c.rounds, err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	status, stdout, stderr := invoke("-h")
	if status != program.Pass || stderr != "" {
		t.Errorf("status %d, %q", status, stderr)
	}
	for _, want := range []string{"-quick", "reset-random-10M", "SetReadDeadline"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%s is missing in:\n%s", want, stdout)
		}
	}
}

// TestChildThatHangs has a turn take longer than it may.
func TestChildThatHangs(t *testing.T) {
	s := smallScale()
	s.Limit, s.Settle = 300*time.Millisecond, time.Hour
	_, err := delegate(context.Background(), order{"silent", us, 1, s})
	if err == nil || err.Error() != "still running after 300ms" {
		t.Errorf("got %v", err)
	}
}

func TestChildThatFails(t *testing.T) {
	_, err := delegate(context.Background(), order{"silent", "nobody", 1, smallScale()})
	if err == nil || !strings.Contains(err.Error(), `no contender "nobody"`) {
		t.Errorf("got %v", err)
	}
}

func TestInterruption(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	cfg, err := parse("-run silent/idlewheel")
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	if err := hold(ctx, cfg, cfg.contests(), &errs); !errors.Is(err, context.DeadlineExceeded) || errs.Len() > 0 {
		t.Errorf("got %v, %q", err, errs.String())
	}
}

// TestNobodyIsLeftOut checks that whatever a contender cannot do is either
// reported as skipped or said in its row.
func TestNobodyIsLeftOut(t *testing.T) {
	cfg, err := parse("")
	if err != nil {
		t.Fatal(err)
	}
	for _, ct := range cfg.contests() {
		switch {
		case ct.skipped != "":
		case ct.kind.Most > 0 && ct.conns > ct.kind.Most:
			t.Errorf("%s/%s has %d connections, more than it can", ct.work.name, ct.kind.Name, ct.conns)
		case ct.conns != ct.work.conns && ct.note == "":
			t.Errorf("%s/%s has %d connections, and does not say so", ct.work.name, ct.kind.Name, ct.conns)
		}
	}
}
