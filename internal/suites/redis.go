package main

const redisPath = "github.com/alicebob/miniredis/v2"

// Its listeners of TLS, which few tests use, stay bare.
var redis = suite{
	name:     "redis",
	module:   redisPath,
	packages: []string{redisPath, redisPath + "/server"},
	patches: []patch{{
		file:    redisPath + "/server/server.go",
		after:   "	l, err := net.Listen(\"tcp\", addr)\n	if err != nil {\n		return nil, err\n	}",
		insert:  "	if SuitesHook != nil { l = SuitesHook(l) }",
		declare: "SuitesHook func(net.Listener) net.Listener",
	}},
	hooks: []string{"redis.go"},
}
