//go:build proof

package idledebug

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
)

// TestAnyNameOfAPhase has phases be chosen whose names mean something elsewhere.
func TestAnyNameOfAPhase(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node to run the page's functions")
	}
	names := []string{"*", "", "=", "all", "a=b"}
	list, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	source, err := files.ReadFile("page/text.js")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(node, "--input-type=module", "-e", string(source)+`
		const names = `+string(list)+`;
		const values = phaseOptions(names.map(name => ({ name }))).map(([value]) => value);
		console.log(JSON.stringify(values.map(chosenPhase)));`).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []*string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(got) != len(names)+1 || got[0] != nil {
		t.Fatalf("chosen: %s", out)
	}
	for i, name := range names {
		if p := got[i+1]; p == nil || *p != name || slices.Index(names, *p) != i {
			t.Errorf("%q comes out as %s", name, out)
		}
	}
}
