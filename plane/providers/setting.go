package providers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// setting is everything that defines a process.
type setting struct {
	// dir is the directory of the process.
	dir, binary string
	args, env   []string
	// files are the contents of Secrets and ConfigMaps, by path; directories are the other directories that it needs.
	files       map[string][]byte
	directories []string
	// ready finds out whether the process works, and live whether it must be replaced. Without ready, the process counts
	// as working once it has started. Without live, it is never replaced.
	ready, live *probe
	// fingerprint changes whenever the setting or the program changes.
	fingerprint string
}

// errNotAllowed says that the user has not allowed the program.
var errNotAllowed = errors.New("may not run here")

// setting collects what a Deployment's process needs. The error says what is missing.
func (r *reconciler) setting(ctx context.Context, d *appsv1.Deployment, binary string) (*setting, error) {
	programs, err := allowed(r.Dir)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(programs, binary) {
		return nil, fmt.Errorf("%s %w: only programs passed to capstan clusterctl by --provider-binary may", binary,
			errNotAllowed)
	}
	info, err := os.Stat(binary)
	if err != nil {
		return nil, fmt.Errorf("looking at the program: %w; put it there, or upgrade the provider with another "+
			"--provider-binary", err)
	}
	pod := &d.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		return nil, fmt.Errorf("the Deployment has %d containers, but the plane runs only one process for it",
			len(pod.Containers))
	}
	s := &setting{dir: r.dir(client.ObjectKeyFromObject(d)), binary: binary, files: map[string][]byte{}}
	s.directories = []string{s.temporary()}
	if err := r.mount(ctx, d, s); err != nil {
		return nil, err
	}
	variables, err := r.variables(ctx, d)
	if err != nil {
		return nil, err
	}
	c := &pod.Containers[0]
	s.args, s.env = command(c, variables, s.mounts(c))
	s.env = append(slices.Clone(r.Env), append(s.env, "KUBECONFIG="+s.kubeconfig(), "TMPDIR="+s.temporary())...)
	s.ready, s.live = newProbe(c, c.ReadinessProbe), newProbe(c, c.LivenessProbe)
	// The file's time and size show whether it was rebuilt, without reading all of it.
	content, err := json.Marshal([]any{binary, info.ModTime(), info.Size(), s.args, s.env, s.files, s.directories,
		c.ReadinessProbe, c.LivenessProbe})
	if err != nil {
		return nil, fmt.Errorf("summing up the provider: %w", err)
	}
	sum := sha256.Sum256(content)
	s.fingerprint = hex.EncodeToString(sum[:])
	return s, nil
}

func (s *setting) kubeconfig() string            { return filepath.Join(s.dir, "kubeconfig") }
func (s *setting) token() string                 { return filepath.Join(s.dir, "token") }
func (s *setting) temporary() string             { return filepath.Join(s.dir, "tmp") }
func (s *setting) volume(name string) string     { return filepath.Join(s.dir, "volumes", name) }
func (s *setting) add(dir, key string, b []byte) { s.files[filepath.Join(dir, key)] = b }

// mounts maps mount points in the container to the directories of volumes. Paths of the machine stay the same.
func (s *setting) mounts(c *corev1.Container) map[string]string {
	all := map[string]string{}
	for _, m := range c.VolumeMounts {
		if slices.Contains(s.directories, s.volume(m.Name)) {
			all[strings.TrimSuffix(m.MountPath, "/")] = s.volume(m.Name)
		}
	}
	return all
}

// mount reads the Secrets and ConfigMaps that are volumes.
func (r *reconciler) mount(ctx context.Context, d *appsv1.Deployment, s *setting) error {
	for _, v := range d.Spec.Template.Spec.Volumes {
		var source client.Object
		var items []corev1.KeyToPath
		var optional *bool
		switch {
		case v.Secret != nil:
			source, items, optional = &corev1.Secret{}, v.Secret.Items, v.Secret.Optional
			source.SetName(v.Secret.SecretName)
		case v.ConfigMap != nil:
			source, items, optional = &corev1.ConfigMap{}, v.ConfigMap.Items, v.ConfigMap.Optional
			source.SetName(v.ConfigMap.Name)
		case v.EmptyDir == nil:
			continue
		}
		s.directories = append(s.directories, s.volume(v.Name))
		if source == nil {
			continue
		}
		data, err := r.data(ctx, d.Namespace, source, optional)
		if err != nil {
			return fmt.Errorf("reading volume %s: %w", v.Name, err)
		}
		if len(items) == 0 {
			for key := range data {
				items = append(items, corev1.KeyToPath{Key: key, Path: key})
			}
		}
		for _, item := range items {
			if !filepath.IsLocal(item.Path) {
				return fmt.Errorf("volume %s has the path %q, which leads out of it", v.Name, item.Path)
			}
			if text, ok := data[item.Key]; ok {
				s.add(s.volume(v.Name), item.Path, text)
			}
		}
	}
	return nil
}

// data reads a Secret or ConfigMap; it returns nil if an optional one is missing.
func (r *reconciler) data(ctx context.Context, namespace string, o client.Object,
	optional *bool) (map[string][]byte, error) {
	err := r.direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.GetName()}, o)
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch o := o.(type) {
	case *corev1.Secret:
		return o.Data, nil
	case *corev1.ConfigMap:
		all := map[string][]byte{}
		for key, text := range o.Data {
			all[key] = []byte(text)
		}
		for key, b := range o.BinaryData {
			all[key] = b
		}
		return all, nil
	}
	return nil, fmt.Errorf("%T has no data", o)
}

// variables returns the container's variables in order, with their values resolved.
func (r *reconciler) variables(ctx context.Context, d *appsv1.Deployment) ([]corev1.EnvVar, error) {
	var all []corev1.EnvVar
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		from := e.ValueFrom
		var source client.Object
		var key string
		var optional *bool
		switch {
		case from == nil:
		case from.FieldRef != nil:
			e.Value = field(d, from.FieldRef.FieldPath)
		case from.SecretKeyRef != nil:
			source, key, optional = &corev1.Secret{}, from.SecretKeyRef.Key, from.SecretKeyRef.Optional
			source.SetName(from.SecretKeyRef.Name)
		case from.ConfigMapKeyRef != nil:
			source, key, optional = &corev1.ConfigMap{}, from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional
			source.SetName(from.ConfigMapKeyRef.Name)
		default:
			return nil, fmt.Errorf("variable %s has a value that only a Pod has", e.Name)
		}
		if source != nil {
			data, err := r.data(ctx, d.Namespace, source, optional)
			if err != nil {
				return nil, fmt.Errorf("reading variable %s: %w", e.Name, err)
			}
			value, ok := data[key]
			if may := optional != nil && *optional; !ok && !may {
				return nil, fmt.Errorf("reading variable %s: there is no key %s", e.Name, key)
			} else if !ok {
				continue
			}
			e.Value = string(value)
		}
		all = append(all, corev1.EnvVar{Name: e.Name, Value: e.Value})
	}
	return all, nil
}

// field returns the value of a field that a Pod of the Deployment would have. The Pod's node is always this machine.
func field(d *appsv1.Deployment, path string) string {
	switch path {
	case "metadata.name":
		return d.Name
	case "metadata.namespace":
		return d.Namespace
	case "metadata.uid":
		return string(d.UID)
	case "spec.serviceAccountName":
		return account(d)
	case "spec.nodeName":
		return "localhost"
	case "status.podIP", "status.hostIP":
		return loopback
	}
	return ""
}

// account returns the ServiceAccount of a Deployment.
func account(d *appsv1.Deployment) string {
	return cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default")
}

// write creates the directory of a process with the files of its volumes, and removes everything of an earlier process.
func (s *setting) write() error {
	errs := []error{os.RemoveAll(s.dir), os.MkdirAll(s.dir, 0o700)}
	for _, dir := range s.directories {
		errs = append(errs, os.MkdirAll(dir, 0o700))
	}
	for path, data := range s.files {
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("creating the directory of the provider: %w", err)
	}
	return nil
}
