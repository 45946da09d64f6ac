package main

const gnetPath = "github.com/panjf2000/gnet/v2"

var gnet = suite{
	name:     "gnet",
	module:   gnetPath,
	packages: []string{gnetPath},
	patches: []patch{{
		file:    gnetPath + "/engine_unix.go",
		after:   "func run(eventHandler EventHandler, listeners []*listener, options *Options, addrs []string) error {",
		insert:  "	if SuitesHook != nil { eventHandler = SuitesHook(eventHandler) }",
		declare: "SuitesHook func(EventHandler) EventHandler",
	}, {
		file:   gnetPath + "/client_unix.go",
		after:  "func NewClient(eh EventHandler, opts ...Option) (cli *Client, err error) {",
		insert: "	if SuitesHook != nil { eh = SuitesHook(eh) }",
	}, {
		file:   gnetPath + "/listener_unix.go", // its ports are fixed, and may be in TIME_WAIT since the last run
		after:  "func initListener(network, addr string, options *Options) (ln *listener, err error) {",
		insert: "	options.ReuseAddr = true",
	}},
	hooks: []string{"gnet.go"},
	differences: []known{{
		test: test{gnetPath, "TestEngineStop"},
		reason: "two engines share a port, and the test wants one to stop between two dials that are 50 ms apart; " +
			"controlling the trackers shifts that. Wrapped without control, it passes",
	}},
}
