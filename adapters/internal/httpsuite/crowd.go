package httpsuite

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/idlewheel/idlewheel/idle"
)

var ofCrowds = []promise{
	// Attackers of all kinds are cut, and honest clients among them are served.
	{"ManyAtOnce", plain, func(t *testing.T, u under) {
		n := 300
		if testing.Short() {
			n = 100
		}
		to := All(limit)
		var cut sync.Map // by address; honest clients, and who is about to attack, may take their time
		to.OnTimeout = func(c net.Conn, _ *idle.TimeoutError) bool {
			_, late := cut.Load(c.RemoteAddr().String())
			return !late
		}
		s := u.start(t, to, echo)
		var attackers []*Client
		for i := range n {
			c := s.Dial()
			c.Send([]string{"", "G", Post(5) + "a"}[i%3])
			cut.Store(c.LocalAddr().String(), true)
			attackers = append(attackers, c)
			if i%10 == 0 {
				honest := s.Dial()
				honest.Get("/")
				honest.Send(Post(5) + "abcde")
				honest.Want(200)
				honest.Close()
			}
		}
		for i, c := range attackers {
			if i%3 == 0 {
				c.WantClosed()
			} else {
				c.Refused(408)
			}
		}
		honest := uint64((n + 9) / 10)
		st := s.Settled()
		if st.Tracked != uint64(n)+honest || st.Gone != honest || st.TimedOut[idle.ReasonReadTotal] < uint64(n/2) {
			t.Errorf("%+v", st)
		}
	}},

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
