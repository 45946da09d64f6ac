package field

import "embed"

//go:embed conf
var configs embed.FS
