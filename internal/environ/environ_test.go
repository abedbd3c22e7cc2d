package environ

import (
	"slices"
	"testing"
)

func TestPick(t *testing.T) {
	for name, c := range map[string]struct{ all, want []string }{
		"variables about the user": {
			[]string{"HOME=/h", "USER=u", "PATH=/bin"}, []string{"HOME=/h", "USER=u", "PATH=/bin"},
		},
		"settings of programs": {
			[]string{"ETCD_CONFIG_FILE=/x", "KUBECONFIG=/x", "LD_PRELOAD=/x", "GODEBUG=x", "AWS_SECRET_ACCESS_KEY=x"}, nil,
		},
		"names that only look alike": {[]string{"PATHS=/x", "PATH", "=PATH=/x", "path=/x"}, nil},
		"no variables":               {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := pick(c.all)
			if !slices.Equal(got, c.want) || got == nil { // for a child, nil would mean the parent's environment
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
