package providers

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const loopback = "127.0.0.1"

// command returns the arguments and the environment of the process that replaces a container. It replaces $(NAME) with
// that variable's value, and the path of a mount with the directory that replaces the mount. It drops the first element
// of the container's command, which is the program, because a different program runs here.
func command(c *corev1.Container, variables []corev1.EnvVar, mounts map[string]string) (args, env []string) {
	var known []string // pairs in reverse order, because the last one takes precedence
	expand := func(text string) string { return strings.NewReplacer(known...).Replace(text) }
	for _, v := range variables {
		value := moved(expand(v.Value), mounts)
		known = append([]string{"$(" + v.Name + ")", value}, known...)
		env = append(env, v.Name+"="+value)
	}
	var all []string
	if len(c.Command) > 1 {
		all = append(all, c.Command[1:]...)
	}
	for _, arg := range append(all, c.Args...) {
		arg = expand(arg)
		if flag, value, ok := strings.Cut(arg, "="); ok {
			arg = flag + "=" + moved(value, mounts)
		} else {
			arg = moved(arg, mounts)
		}
		args = append(args, arg)
	}
	return args, env
}

// moved returns the path on this machine for a path in the container: only mounts and paths below them differ.
func moved(path string, mounts map[string]string) string {
	best := ""
	for inside := range mounts {
		if (path == inside || strings.HasPrefix(path, inside+"/")) && len(inside) > len(best) {
			best = inside
		}
	}
	if best == "" {
		return path
	}
	return mounts[best] + strings.TrimPrefix(path, best)
}
