// Package idledebug serves a page that shows the connections of a tracker: how many there are
// and how idle, what ends within the next minute, and what has ended and why.
//
//	page, err := idledebug.New(map[string]*idle.Tracker{"chat": ln.Tracker()}, nil)
//	http.Handle("/debug/idle/", http.StripPrefix("/debug/idle", page))
//
// The page only shows. To drain a tracker, change limits or end connections, call the methods of
// [idle.Tracker].
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
// # What it costs
//
// Nothing runs while no browser shows the page. While some do, there is at most one census per
// second for each tracker ([idle.Tracker.Visit]), and its counts and ends are copied at most
// four times a second, however many browsers there are. A census runs in the passes of the
// tracker, in small steps. It may take longer than a second, for example because an event loop is
// blocked. Then the page shows the previous census, and says so.
//
// New makes the trackers record their last ends ([idle.Tracker.RecentEnds]), until they are
// closed. Each connection that ends then fills in a record, which costs far
// less than closing it.
//
// # JSON
//
// Everything on the page comes from these requests, which curl can make too. The parameter
// tracker names the tracker; the default is the first by name. Durations are in seconds, except limits, which are
// text such as "1m15s".
//
//	GET  api/state        counts, phases and limits, census, drain, recent ends (ends=50)
//	GET  api/connections  the list: sort=idle, age, end or unsent; page=1; size=20
//
// Errors are {"error": "..."}. The list has the first 500 connections in its order, as the census
// of the time "at" has found them. Some may have ended since. In rare cases, a connection is
// there twice.
//
// # Phases
//
// The page shows the phases in which connections are or have ended, by Policy.Name. Phases with
// the same name are shown as one. The limits are those in force: of the initial phase, and of
// phases that the newest census has found connections in.
package idledebug
