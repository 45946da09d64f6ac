package idleprom

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/idlewheel/idlewheel/idle"
)

func TestLint(t *testing.T) {
	tr, c := newTracker(t, idle.Policy{IdleTimeout: time.Minute}, nil)
	if err := tr.SetCapacity(idle.Capacity{MaxConns: 10}); err != nil {
		t.Fatal(err)
	}
	track(t, tr, 1)[0].End("a cause")
	for deadline := time.Now().Add(patience); tr.Stats().Shed == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p.Metric, p.Text)
	}
	// All families are there, so all have been looked at.
	g := gather(t, c)
	for _, f := range families {
		if len(g["idlewheel_"+f.name]) == 0 {
			t.Errorf("idlewheel_%s is missing", f.name)
		}
	}
}

// TestDoc compares the page of the package with what there is.
func TestDoc(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^//\t(idlewheel_\w+)(?:\{(.*?)\})?`).FindAllStringSubmatch(string(text), -1) {
		listed[m[1]+"{"+m[2]+"}"] = true
	}
	for _, f := range families {
		if want := "idlewheel_" + f.name + "{" + strings.Join(f.labels, ",") + "}"; !listed[want] {
			t.Error("doc.go does not list", want)
		}
	}
	if len(listed) != len(families) {
		t.Errorf("doc.go lists %d metrics, and there are %d", len(listed), len(families))
	}
}

func TestNewFails(t *testing.T) {
	tr, _ := newTracker(t, idle.Policy{IdleTimeout: time.Minute}, nil)
	for want, trackers := range map[string]map[string]*idle.Tracker{
		"idleprom: there are no trackers":                            nil,
		`idleprom: tracker "b" is nil; make it with idle.New`:        {"a": tr, "b": nil},
		"idleprom: the name of a tracker is empty":                   {"": tr},
		`idleprom: the name "a\xff" of a tracker is not valid UTF-8`: {"a\xff": tr},
	} {
		if c, err := New(trackers, nil); c != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, %v; want %s", c, err, want)
		}
	}
}

func TestSeveralTrackers(t *testing.T) {
	a, _ := newTracker(t, idle.Policy{IdleTimeout: time.Minute}, nil)
	b, _ := newTracker(t, idle.Policy{IdleTimeout: time.Minute}, nil)
	track(t, a, 1)
	track(t, b, 2)
	both, err := New(map[string]*idle.Tracker{"a": a, "b\n\"": b}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := testutil.CollectAndCompare(both, strings.NewReader(`
# HELP idlewheel_connections Live connections.
# TYPE idlewheel_connections gauge
idlewheel_connections{tracker="a"} 1
idlewheel_connections{tracker="b\n\""} 2
`), "idlewheel_connections"); err != nil {
		t.Error(err)
	}

	// A second collector of other trackers can join, and leave again.
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(both)
	other, again := collectorOf(t, a, nil), collectorOf(t, b, nil)
	reg.MustRegister(other)
	if n, err := testutil.GatherAndCount(reg, "idlewheel_connections"); n != 3 || err != nil {
		t.Error(n, err)
	}
	if err := reg.Register(again); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		t.Error("two have the same name:", err)
	}
	if !reg.Unregister(other) || reg.Register(again) != nil {
		t.Error("the name is not free again")
	}
}
