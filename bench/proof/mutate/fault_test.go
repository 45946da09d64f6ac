package mutate

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// A fault is an entry of a faults.txt.
type fault struct {
	where    string // the faults.txt and the line, for messages
	dir      string // of the package, relative to the module root, with slashes
	file     string // in dir
	decl     string // the declaration that is changed
	what     string // what is wrong
	edits    []edit
	tests    []string // packages whose tests are to catch it, and flags for go test
	survives string   // the reason why no test catches it; empty if one does
}

// An edit replaces code in a declaration.
type edit struct{ old, new string }

// name identifies the fault.
func (f *fault) name() string {
	return path.Join(f.dir, f.file) + " " + f.decl + ": " + f.what
}

// faultsFile is where a package has its faults, relative to its directory.
const faultsFile = "testdata/faults.txt"

// load reads the faults of all packages below root.
func load(root string) (all []fault, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		dir, ok := strings.CutSuffix(filepath.ToSlash(name), "/"+faultsFile)
		if !ok {
			return nil
		}
		dir, err = filepath.Rel(root, filepath.FromSlash(dir))
		if err != nil {
			return err
		}
		text, err := os.Open(name)
		if err != nil {
			return err
		}
		defer text.Close()
		faults, err := parse(text, filepath.ToSlash(dir))
		all = append(all, faults...)
		return err
	})
	return all, err
}

// heading is the first line of a fault.
var heading = regexp.MustCompile(`^(\S+\.go) (\S+): (.+)$`)

// parse reads the faults of the package in dir.
func parse(r io.Reader, dir string) (faults []fault, err error) {
	var (
		f     *fault // the one that is being read; nil between two
		added bool   // the line before was one with a +
		tests []string
		names = map[string]bool{}
	)
	in := bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		line := strings.TrimSpace(in.Text())
		where := fmt.Sprintf("%s:%d", path.Join(dir, faultsFile), n)
		wasAdded := added
		added = false
		key, value := line, ""
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			key, value = line[:i], line[i+1:]
		}
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			f = nil
		case f == nil && key == "tests:":
			tests = strings.Fields(value)
		case f == nil:
			m := heading.FindStringSubmatch(line)
			if m == nil {
				return nil, fmt.Errorf("%s: %q is no beginning of a fault; write: file.go Declaration: what is wrong", where, line)
			}
			faults = append(faults, fault{where: where, dir: dir, file: m[1], decl: m[2], what: m[3], tests: tests})
			f = &faults[len(faults)-1]
			if names[f.name()] {
				return nil, fmt.Errorf("%s: there are two faults %q", where, f.name())
			}
			names[f.name()] = true
		case key == "tests:":
			f.tests = strings.Fields(value)
		case key == "survives:":
			f.survives = value
		case key == "-":
			if len(f.edits) == 0 || wasAdded {
				f.edits = append(f.edits, edit{})
			}
			e := &f.edits[len(f.edits)-1]
			e.old += value + "\n"
		case key == "+":
			if len(f.edits) == 0 {
				f.edits = append(f.edits, edit{})
			}
			e := &f.edits[len(f.edits)-1]
			e.new += value + "\n"
			added = true
		case f.survives != "": // the reason goes on
			f.survives += " " + line
		default:
			return nil, fmt.Errorf("%s: %q is no line of a fault; those begin with -, +, tests: or survives: and a space", where, line)
		}
	}
	for _, f := range faults {
		if len(f.edits) == 0 || len(f.tests) == 0 {
			return nil, fmt.Errorf("%s: a fault wants a change (lines with - and +) and packages to test (a line with tests: above it)", f.where)
		}
	}
	return faults, in.Err()
}
