// Package idledebug serves a page that shows the connections of a tracker: how many there are
// and how idle, what ends within the next minute, and what has ended and why.
//
//	page, err := idledebug.New(map[string]*idle.Tracker{"chat": ln.Tracker()}, nil)
//	http.Handle("/debug/idle/", http.StripPrefix("/debug/idle", page))
//
// Importing the package registers nothing. The page works under any prefix. A gnet handler has no
// tracker before OnBoot, so call New there.
//
// # Who may look
//
// Without [Options].Authorize, a request is answered if all of this holds:
//
//   - it comes from a loopback address;
//   - its Host is localhost or a loopback address, with any port, so that a website cannot
//     reach the page by a name of its own that resolves to 127.0.0.1 (DNS rebinding);
//   - it has none of the headers that proxies add: Forwarded, Via, X-Forwarded-*, X-Real-IP,
//     X-Client-IP, True-Client-IP and CF-Connecting-IP.
//
// If a proxy on the same machine adds no such header, all its clients look like loopback peers.
// Behind such a proxy, set Authorize.
//
// Requests for the JSON are refused if a browser says that they come from another site
// (Sec-Fetch-Site).
//
// # Steering
//
// GET changes nothing. With [Options].Steer, POST requests drain the tracker, shed and end
// connections, and change limits. Without it they get 404. Requests that a browser sends from
// another site are refused ([http.CrossOriginProtection]). So are requests without the
// Content-Type application/json, which a form can't send.
//
// While limits follow a pressure ([Options].Pressure), the page changes the normal limits, and
// the next reading of the pressure scales them.
//
// # What it costs
//
// Nothing runs while no browser shows the page. While some do, there is at most one census per
// second for each tracker ([idle.Tracker.Census]), and its counts and ends are copied at most
// four times a second, however many browsers there are. Each page of the list is described
// once per census. Censuses and descriptions run in the passes of the tracker, in small steps.
//
// New makes the trackers record their last ends ([idle.Tracker.RecentEnds]), until they are
// closed. Each connection that ends then fills in a record, which costs far
// less than closing it.
//
// # JSON
//
// Everything on the page comes from these requests, which curl can make too. The parameter
// tracker names the tracker; the default is the first by name. Answers have durations in seconds.
//
//	GET  api/state        counts, phases and limits, census, operations, recent ends (ends=50)
//	GET  api/connections  the list: sort=idle, age, end, misses or unsent; phase; page=1; size=20
//	POST api/drain        {"duration": "60s", "close_delay": "5s", "force_after": "5m"}; or "rate": 100, or "now": true, instead of duration
//	POST api/shed         {"idle": "30s", "age": "", "phase": "", "fraction": 0.1, "max": 0, "cause": "", ...}, and as for drain
//	POST api/operation    {"id": "...", "do": "pause"}, or resume, or cancel
//	POST api/end          {"id": "...", "cause": "by hand"}, with the id of a listed connection
//	POST api/limits       {"phase": "", "limits": {"IdleTimeout": "30s", "Heartbeat.Misses": "2"}}
//
// Errors are {"error": "..."}. A body with an unknown field, or with one twice, is refused.
// Limits have the names that they have in [idle.Policy]. Those that are left out don't change.
//
// An id is valid for one tracker and one Handler. The id of a row is valid for a minute, or
// until 100,000 more rows are listed. It can be used once. Two pages never show the same
// connection if they have the same size and come from the same census. The field
// "at" says which census that is. If connections have ended since the census, a page may be short.
//
// # Phases
//
// The name of a phase is Policy.Name, so give each phase its own name if you want to change
// limits here. If several phases have one name, the page shows and changes one in which the
// newest census has found connections. The answer to api/limits says what was changed, such as
// {"phases": 1, "name": "chat", "initial": false, "several": true}. Several is true if censuses
// have found other phases with that name, which don't change. A census reports only one phase per
// name, so there may be others even if several is false. The initial phase is always shown if it
// has a name. Otherwise it's shown while connections are in it, or once one has timed out in it.
//
// The phases of idlehttp and idlefasthttp are made from their Timeouts. Change those with
// SetTimeouts of the listener, which says what is refused. It replaces what was changed
// here.
package idledebug
