package providers

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const loopback = "127.0.0.1"

// command returns the arguments and the environment of the process that stands for a container. $(NAME) is replaced by
// the variable of that name, and the path of a mount by the folder that stands for it. The first element of the
// container's command is the program, which is another one here.
func command(c *corev1.Container, variables []corev1.EnvVar, mounts map[string]string) (args, env []string) {
	var known []string // pairs, the last one first: it counts
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

// moved is a path on this machine: that of a mount, or below one, is another one here.
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
