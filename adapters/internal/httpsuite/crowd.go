package httpsuite

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/idle"
)

var ofCrowds = []promise{

	// A header that trickles in has one answer: what the server itself would say, when its
	// Read fails, does not go out, neither before that nor after it. All are counted.
	{"AnsweredOnce", plain, func(t *testing.T, u under) {
		const n = 100
		s := u.start(t, Only(limit, "HeaderTimeout"), unreachable(t))
		var clients []*Client
		for range n {
			c := s.Dial()
			c.Send("GET / HTTP/1.1\r\nX: ")
			c.Trickle(strings.Repeat("x", 500), 5*ms)
			clients = append(clients, c)
		}
		wrong := map[string]int{}
		for _, c := range clients {
			all, _ := io.ReadAll(c.In)
			if i := strings.LastIndex(string(all), "HTTP/1.1 "); i != 0 || !strings.HasPrefix(string(all), "HTTP/1.1 408 ") {
				wrong[fmt.Sprintf("%.12s... %.12s", all, all[max(i, 0):])]++
			}
		}
		if len(wrong) > 0 {
			t.Errorf("of %d: %v", n, wrong)
		}
		s.WantOnly(n, "request header", idle.ReasonReadTotal)
	}},
}
