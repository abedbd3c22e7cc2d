package providers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestCommand(t *testing.T) {
	mounts := map[string]string{"/tmp/certs": "/h/volumes/certs", "/tmp/certs/more": "/h/volumes/more"}
	variables := []corev1.EnvVar{{Name: "NS", Value: "blue"}, {Name: "FILE", Value: "/tmp/certs/$(NS)"},
		{Name: "AGAIN", Value: "$(NOBODY)"}}
	for name, c := range map[string]struct {
		command, args, want []string
	}{
		"no command and no arguments":    {nil, nil, nil},
		"the program's name is left out": {[]string{"/manager"}, []string{"--a"}, []string{"--a"}},
		"arguments in the command stay":  {[]string{"/manager", "run"}, []string{"--a"}, []string{"run", "--a"}},
		"variables": {nil, []string{"--namespace=$(NS)", "$(NS)-$(NONE)"},
			[]string{"--namespace=blue", "blue-$(NONE)"}},
		"a variable with a path": {nil, []string{"--x=$(FILE)"}, []string{"--x=/h/volumes/certs/blue"}},
		"a mount": {nil, []string{"--dir=/tmp/certs", "--dir=/tmp/certs/", "/tmp/certs/tls.crt"},
			[]string{"--dir=/h/volumes/certs", "--dir=/h/volumes/certs/", "/h/volumes/certs/tls.crt"}},
		"the innermost mount": {
			nil, []string{"--dir=/tmp/certs/more/x"}, []string{"--dir=/h/volumes/more/x"},
		},
		"a path that only begins like a mount": {nil, []string{"--dir=/tmp/certs2"}, []string{"--dir=/tmp/certs2"}},
		"a value with an equals sign": {nil, []string{"--feature-gates=A=/tmp/certs"},
			[]string{"--feature-gates=A=/tmp/certs"}},
		"a flag and its path as two arguments": {
			nil, []string{"--dir", "/tmp/certs"}, []string{"--dir", "/h/volumes/certs"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			args, env := command(&corev1.Container{Command: c.command, Args: c.args}, variables, mounts)
			if !slices.Equal(args, c.want) {
				t.Errorf("the arguments are %q, want %q", args, c.want)
			}
			if want := []string{"NS=blue", "FILE=/h/volumes/certs/blue", "AGAIN=$(NOBODY)"}; !slices.Equal(env, want) {
				t.Errorf("the environment is %q, want %q", env, want)
			}
		})
	}
}
