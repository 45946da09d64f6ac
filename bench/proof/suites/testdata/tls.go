package hook_test

import "crypto/tls"

func init() {
	if suitesWrap != "" {
		tls.SuitesHook = wrapAny
	}
}
