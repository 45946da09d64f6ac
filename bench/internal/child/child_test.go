package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
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
				fmt.Print("more of it, without an end")
				if err := p.Tell(s + s); err != nil {
					return err
				}
			}
		},
		"fail": func(*Parent) error { return errors.New("cannot") },
		"cores": func(p *Parent) error {
			return p.Tell([]int{runtime.GOMAXPROCS(0), runtime.NumCPU()})
		},
	})
	os.Exit(m.Run())
}

func TestConversation(t *testing.T) {
	c, err := Start("echo", "a", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"aa", "bb", "bb"} {
		var got string
		if err := c.Hear(&got); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		if runtime.GOOS != "windows" { // which has no such signal
			if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
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
		c, err := Start(role, nil, Options{Stderr: &stderr})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Hear(new(string)); !errors.Is(err, ErrEnded) {
			t.Errorf("%s: got %v", role, err)
		}
		if err := c.Stop(); err == nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: got %v, %q", role, err, stderr.String())
		}
	}
}

func TestPinned(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("runs on Linux only")
	}
	c, err := Start("cores", nil, Options{Pinned: true, Core: 0})
	if err != nil {
		t.Skipf("this process may not use core 0: %v", err)
	}
	defer c.Stop()
	var got []int
	if err := c.Hear(&got); err != nil || len(got) != 2 || got[0] != 1 || got[1] != 1 {
		t.Errorf("it may use %v, %v; want one core", got, err)
	}
}
