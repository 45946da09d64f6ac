package idledebug

import (
	"io/fs"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestFields: the page uses only fields that the JSON has. Its scripts name the objects as they are
// named here.
func TestFields(t *testing.T) {
	known := map[string]map[string]bool{}
	for name, v := range map[string]any{
		"state": state{}, "counts": counts{}, "lateness": quantiles{}, "lifetime": quantiles{}, "capacity": capacity{}, "draining": draining{}, "census": counted{},
		"bucket": bucket{}, "phase": phase{}, "limit": limit{}, "end": end{}, "list": list{}, "row": row{},
	} {
		known[name] = map[string]bool{}
		for i := range reflect.TypeOf(v).NumField() {
			field, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ",")
			known[name][field] = true
		}
	}
	use := regexp.MustCompile(`(?:^|[^.\w])(\w+)\.(\w+)`)
	used := map[string]bool{}
	for _, file := range []string{"page.js", "connections.js", "draw.js"} {
		source, err := fs.ReadFile(files, "page/"+file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range use.FindAllStringSubmatch(string(source), -1) {
			if fields := known[m[1]]; fields != nil {
				used[m[1]] = true
				if !fields[m[2]] {
					t.Errorf("%s uses %s.%s, which the JSON doesn't have", file, m[1], m[2])
				}
			}
		}
	}
	for name := range known {
		if !used[name] {
			t.Errorf("no script uses %s", name)
		}
	}
}
