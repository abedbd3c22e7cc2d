package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MaySave fails if the clusters of a namespace cannot be saved to a directory. Saving pauses them, as a move does.
// MaySave writes nothing.
func (c *Client) MaySave(ctx context.Context, namespace string) error {
	if namespace == "" {
		return errNoNamespace
	}
	source, err := connect(c.Kubeconfig)
	if err != nil {
		return err
	}
	return resumable(ctx, source, c.Kubeconfig, namespace)
}

// resumable fails if clusters of a namespace, or classes there that they use, are paused, which an interrupted move can
// cause. Paused clusters do not move. The error lists the commands that resume them.
func resumable(ctx context.Context, c client.Client, at upstream.Kubeconfig, namespace string) error {
	clusters, classes := &clusterv1.ClusterList{}, &clusterv1.ClusterClassList{}
	for _, list := range []client.ObjectList{clusters, classes} {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil && !noMatch(err) {
			return fmt.Errorf("looking for paused clusters: %w", err)
		}
	}
	seen := map[client.ObjectKey]bool{}
	for i := range clusters.Items {
		key := clusters.Items[i].GetClassKey()
		if key.Name == "" || key.Namespace == namespace || seen[key] {
			continue
		}
		seen[key] = true
		class := clusterv1.ClusterClass{}
		if err := c.Get(ctx, key, &class); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("looking for the class of cluster %s: %w", clusters.Items[i].Name, err)
		}
		classes.Items = append(classes.Items, class)
	}
	commands := resume(at, clusters.Items, classes.Items)
	if len(commands) == 0 {
		return nil
	}
	return errors.New("paused clusters and classes don't move; if an interrupted move left them paused, resume them in " +
		"the source and move again (docs/clusterctl.md):\n  " + strings.Join(commands, "\n  "))
}

// resume returns the commands that resume what is paused.
func resume(at upstream.Kubeconfig, clusters []clusterv1.Cluster,
	classes []clusterv1.ClusterClass) (commands []string) {
	for i := range clusters {
		c := &clusters[i]
		if ptr.Deref(c.Spec.Paused, false) {
			commands = append(commands, kubectl(at, c.Namespace)+" patch cluster "+c.Name+
				` --type merge -p '{"spec":{"paused":null}}'`)
		}
		if annotations.HasPaused(c) {
			commands = append(commands, kubectl(at, c.Namespace)+" annotate cluster "+c.Name+" "+clusterv1.PausedAnnotation+"-")
		}
	}
	for i := range classes {
		if c := &classes[i]; annotations.HasPaused(c) {
			commands = append(commands, kubectl(at, c.Namespace)+" annotate clusterclass "+c.Name+" "+
				clusterv1.PausedAnnotation+"-")
		}
	}
	return commands
}

// kubectl returns the start of a command line for a namespace of a management cluster.
func kubectl(at upstream.Kubeconfig, namespace string) string {
	text := "kubectl --kubeconfig " + Quote(at.Path)
	if at.Context != "" {
		text += " --context " + Quote(at.Context)
	}
	return text + " -n " + Quote(namespace)
}

// plainWord are the characters that need no quotes in a shell.
const plainWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,"

// Quote quotes a word for a shell.
func Quote(word string) string {
	if word != "" && strings.Trim(word, plainWord) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
