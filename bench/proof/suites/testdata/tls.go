package hook_test

import "crypto/tls"

func init() { tls.SuitesHook = wrapAny }
