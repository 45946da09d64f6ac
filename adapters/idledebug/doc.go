// Package idledebug serves a page on which one sees the connections of a tracker: how
// many there are and how idle, what ends within the next minute, what has ended and why.
//
//	page, err := idledebug.New(map[string]*idle.Tracker{"chat": ln.Tracker()}, nil)
//	http.Handle("/debug/idle/", http.StripPrefix("/debug/idle", page))
//
// Importing the package registers nothing. The page works under any prefix.
//
// # Who may look
//
// Without [Options].Authorize, a request is answered if all of this holds:
//
//   - it comes from a loopback address;
//   - its Host is localhost or a loopback address, with any port, so that a website cannot
//     reach the page by a name of its own that resolves to 127.0.0.1 (DNS rebinding);
//   - it has none of the headers that proxies add, such as X-Forwarded-For.
//
// A proxy on the same machine that adds no such header makes all its clients loopback
// peers. Behind one, set Authorize.
//
// # Steering
//
// GET changes nothing. With [Options].Steer, POST requests drain the tracker, shed and end
// connections, and change limits. Without it they do not exist. Browsers send them from
// this page only ([http.CrossOriginProtection]), and they must have the Content-Type
// application/json, which a form cannot have.
//
// # What a look costs
//
// Nothing runs while nobody looks. While somebody does, there is at most one census a
// second for each tracker ([idle.Tracker.Census]), however many look. From the first look
// on, the tracker keeps its last ends ([idle.Tracker.RecentEnds]).
//
// # JSON
//
// Everything on the page comes from these, and can be had by curl. The parameter tracker
// names the tracker; the default is the first by name. Durations are in seconds.
//
//	GET  api/state        counts, phases and limits, census, operations, recent ends (ends=50)
//	GET  api/connections  the list: sort=idle, age, end or misses; phase; page=1; size=20
//	POST api/drain        {"over": "60s", "rate": 0, "grace": "5s", "stop": "5m"}
//	POST api/shed         {"idle": "30s", "age": "", "phase": "", "share": 0.1, "most": 0, "cause": "", ...}, and as for drain
//	POST api/operation    {"id": 1, "do": "pause"}, or resume, or cancel
//	POST api/end          {"id": "7", "cause": "by hand"}, with the id of a listed connection
//	POST api/limits       {"phase": "", "limits": {"IdleTimeout": "30s", "Heartbeat.Misses": "2"}}
//
// Errors are {"error": "..."}. Limits are called as in [idle.Policy]. Those that are left
// out stay as they are. A phase is called by Policy.Name, so give each phase a name of its
// own if limits are to be changed here.
package idledebug
