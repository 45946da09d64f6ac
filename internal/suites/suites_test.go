package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A new version of Go or of a module may move what a suite is hooked to.
func TestPrepare(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			if _, ours := versions[s.module]; ours && testing.Short() {
				t.Skip("its module may have to be downloaded")
			}
			dir := t.TempDir()
			version, flags, err := s.prepare(t.Context(), root, dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(flags[1]); err != nil || version == "" {
				t.Errorf("version %q, %v", version, err)
			}
			var added int
			filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
				if strings.HasPrefix(filepath.Base(path), "suites_") {
					added++
				}
				return nil
			})
			if want := (2 + len(s.hooks)) * len(s.packages); added != want {
				t.Errorf("%d files are added to %d packages, not %d", added, len(s.packages), want)
			}
		})
	}
}

// grpc-go is tested in the version that idlegrpc is tested with.
func TestVersionOfGRPC(t *testing.T) {
	mod, err := os.ReadFile("../../adapters/idlegrpc/go.mod")
	if want := grpcPath + " " + versions[grpcPath] + "\n"; err != nil || !strings.Contains(string(mod), want) {
		t.Errorf("the go.mod of idlegrpc doesn't require %s: %v", want, err)
	}
}

func TestPatchWantsItsLineOnce(t *testing.T) {
	p := patch{file: "x.go", after: "func f() {", insert: "\tg()", declare: "v int"}
	for _, text := range []string{"", "\nfunc f() {}\n", "\nfunc f() {\n}\nfunc f() {\n}\n"} {
		if _, err := p.apply([]byte(text)); err == nil || !strings.Contains(err.Error(), "times") {
			t.Errorf("%q: %v", text, err)
		}
	}
	got, err := p.apply([]byte("\nfunc f() {\n}\n"))
	if want := "\nfunc f() {\n\tg()\n}\n\nvar v int\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPackageName(t *testing.T) {
	for pkg, want := range map[string]string{"net/http": "http", "m.org/gnet/v2": "gnet", "m.org/nats/v2/test": "test", "m.org/v/v2x": "v2x"} {
		if got := packageName(pkg); got != want {
			t.Errorf("%s: %s, not %s", pkg, got, want)
		}
	}
}

func TestRead(t *testing.T) {
	res, err := read([]byte(`{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"said\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"TestA": "fail", "TestB": "run", "": "fail"} {
		if got := res.outcome[test{"p", name}]; got != want {
			t.Errorf("%q: %q, not %q", name, got, want)
		}
	}
	if got := res.output[test{"p", "TestA"}]; !slices.Equal(got, []string{"said\n"}) {
		t.Errorf("output %q", got)
	}
	for text, want := range map[string]string{
		"": "nothing",
		`{"ImportPath":"p","Action":"build-output","Output":"x.go:1: wrong\n"}` + "\n" + `{"ImportPath":"p","Action":"build-fail"}`: "x.go:1: wrong",
	} {
		if _, err := read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A suite whose adapter refuses every server would pass without having tested it.
func TestIntended(t *testing.T) {
	refused := "listener by idlenet, as idlehttp: Server.ReadTimeout"
	for _, c := range []struct {
		wraps
		want int
	}{
		{wraps{}, 0},
		{wraps{refused: 3}, 0},
		{wraps{refused: 3, "listener by the adapter for HTTP": 2, "connection by idlenet": 1}, 3},
	} {
		if got := c.intended(); got != c.want {
			t.Errorf("%v: %d, not %d", c.wraps, got, c.want)
		}
	}
}

// outcomes returns results of package p, from pairs of a name and an outcome.
func outcomes(pairs ...string) results {
	res := results{outcome: map[test]string{}}
	for pair := range slices.Chunk(pairs, 2) {
		res.outcome[test{"p", pair[0]}] = pair[1]
	}
	return res
}

func TestDifference(t *testing.T) {
	for name, c := range map[string]struct {
		bare, wrapped results
		want          []string
		machine       int
	}{
		"none":                  {outcomes("", "pass", "TestA", "pass"), outcomes("", "pass", "TestA", "pass"), nil, 0},
		"the machine":           {outcomes("", "fail", "TestA", "fail"), outcomes("", "fail", "TestA", "fail"), nil, 1},
		"a test":                {outcomes("", "pass", "TestA", "pass"), outcomes("", "fail", "TestA", "fail"), []string{"TestA"}, 0},
		"a subtest":             {outcomes("", "pass", "TestA", "pass", "TestA/b", "pass"), outcomes("", "fail", "TestA", "fail", "TestA/b", "fail"), []string{"TestA/b"}, 0},
		"the process alone":     {outcomes("", "pass", "TestA", "pass"), outcomes("", "fail", "TestA", "pass"), []string{""}, 0},
		"one hangs":             {outcomes("", "pass", "TestA", "pass"), outcomes("", "fail", "TestA", "run"), []string{"TestA"}, 0},
		"one is never come to":  {outcomes("", "pass", "TestA", "pass", "TestB", "pass"), outcomes("", "fail", "TestA", "run"), []string{"TestA", "TestB"}, 0},
		"another than bare":     {outcomes("", "fail", "TestA", "fail", "TestB", "pass"), outcomes("", "fail", "TestA", "pass", "TestB", "fail"), []string{"TestB"}, 0},
		"another one as before": {outcomes("", "fail", "TestA", "fail", "TestB", "pass"), outcomes("", "fail", "TestA", "fail", "TestB", "fail"), []string{"TestB"}, 1},
	} {
		d := difference(c.bare, c.wrapped)
		var got []string
		for _, u := range d.unexpected {
			got = append(got, u.name)
		}
		if !slices.Equal(got, c.want) || len(d.machine) != c.machine {
			t.Errorf("%s: %q and %v of the machine, not %q and %d", name, got, d.machine, c.want, c.machine)
		}
	}
}

// What fails again alone is a difference, what passes both times is not,
// unless there was a race or a crash, which is one however rarely it is seen.
func TestRepeat(t *testing.T) {
	d := &diff{unexpected: []test{{"p", "TestA/x"}, {"p", "TestB"}, {"p", "TestC"}, {"p", "TestCrash"}, {"p", "TestRace"}, {"p", ""}}}
	wrapped := outcomes("TestA/x", "fail", "TestCrash", "run")
	wrapped.output = map[test][]string{{"p", "TestRace"}: {"    testing.go:1: race detected during execution of test\n"}}
	turn := 0
	err := d.repeat(wrapped, func(tests string) (results, error) {
		if tests != "^TestA$/^x$|^TestB$|^TestC$|^TestCrash$|^TestRace$" {
			t.Errorf("it runs %s", tests)
		}
		turn++
		if turn == 1 {
			return outcomes("TestA/x", "pass", "TestB", "pass", "TestC", "fail", "TestCrash", "pass", "TestRace", "pass"), nil
		}
		return outcomes("TestA/x", "pass", "TestB", "fail", "TestCrash", "pass", "TestRace", "pass"), nil
	})
	if err != nil || turn != 2 {
		t.Errorf("%d turns, %v", turn, err)
	}
	if want := []test{{"p", "TestA/x"}}; !slices.Equal(d.unsteady, want) {
		t.Errorf("unsteady are %v", d.unsteady)
	}
	if want := []test{{"p", "TestB"}, {"p", "TestC"}, {"p", "TestCrash"}, {"p", "TestRace"}, {"p", ""}}; !slices.Equal(d.unexpected, want) {
		t.Errorf("steady are %v", d.unexpected)
	}
	failed := errors.New("no")
	if err := d.repeat(wrapped, func(string) (results, error) { return results{}, failed }); err != failed {
		t.Error(err)
	}
}

func TestSkips(t *testing.T) {
	all, harmless := skips([]known{{test: test{"p", "TestA"}}, {test: test{"p", "TestB"}, fatal: true}})
	for name, want := range map[string][2]bool{"TestA": {true, true}, "TestB": {true, false}, "": {}, "TestAB": {}} {
		got := [2]bool{regexp.MustCompile(all).MatchString(name), regexp.MustCompile(harmless).MatchString(name)}
		if got != want {
			t.Errorf("%q is skipped, and run by itself: %v, not %v", name, got, want)
		}
	}
}

// TestKnownUnderRace: what differs only under -race is compared without it.
func TestKnownUnderRace(t *testing.T) {
	s := suite{differences: []known{{test: test{"p", "TestA"}}, {test: test{"p", "TestB"}, race: true}}}
	if with, without := s.known(true), s.known(false); len(with) != 2 || len(without) != 1 || without[0].name != "TestA" {
		t.Errorf("%v with -race, %v without", with, without)
	}
}
