package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Main(map[string]Role{
		"echo": func(p *Parent) error {
			for {
				var s string
				if p.Hear(&s) != nil {
					return nil
				}
				fmt.Println("noise of a library")
				if err := p.Tell(s + s); err != nil {
					return err
				}
			}
		},
		"fail": func(*Parent) error { return errors.New("cannot") },
	})
	os.Exit(m.Run())
}

func TestConversation(t *testing.T) {
	c, err := Start("echo", "a", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"aa", "bb", "bb"} {
		var got string
		if err := c.Hear(&got); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		if err := c.Tell("b"); err != nil {
			t.Error(err)
		}
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

func TestFailure(t *testing.T) {
	for role, want := range map[string]string{"fail": "fail: cannot", "none": `there is no role "none"`} {
		var stderr bytes.Buffer
		c, err := Start(role, nil, &stderr)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Hear(new(string)); err == nil {
			t.Errorf("%s: it has told something", role)
		}
		if err := c.Stop(); err == nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: got %v, %q", role, err, stderr.String())
		}
	}
}
