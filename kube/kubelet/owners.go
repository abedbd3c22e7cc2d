package kubelet

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/projected"
)

// On a host with one id, all files belong to that id, including those in volumes. Each container sees them as its own,
// because the container's user is the same id under another number. No other owner is possible, so the kubelet must not
// try to set one.

// withoutOwners returns the pod as a kubelet with one id must see it: its volumes belong to no group. The containers
// still request the group, so that the CRI server reports that they don't have it.
func withoutOwners(pod *v1.Pod, source string) *v1.Pod {
	pod = hastenComponents(pod, source)
	if sc := pod.Spec.SecurityContext; sc != nil && sc.FSGroup != nil {
		if !slices.Contains(sc.SupplementalGroups, *sc.FSGroup) {
			sc.SupplementalGroups = append(sc.SupplementalGroups, *sc.FSGroup)
		}
		sc.FSGroup, sc.FSGroupChangePolicy = nil, nil
	}
	return pod
}

// pluginsWithoutOwners returns volume plugins that never give files to a container's user. Only the plugin for
// projected volumes would, because they hold tokens.
func pluginsWithoutOwners(plugins []volume.VolumePlugin) []volume.VolumePlugin {
	name := projected.ProbeVolumePlugins()[0].GetPluginName()
	changed := slices.Clone(plugins)
	for i, plugin := range changed {
		if plugin.GetPluginName() == name {
			changed[i] = withoutOwnersPlugin{plugin}
		}
	}
	return changed
}

type withoutOwnersPlugin struct{ volume.VolumePlugin }

// NewMounter returns the plugin's mounter without owners.
func (p withoutOwnersPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	mounter, err := p.VolumePlugin.NewMounter(spec, pod)
	if err != nil {
		return nil, err
	}
	return withoutOwnersMounter{mounter}, nil
}

type withoutOwnersMounter struct{ volume.Mounter }

// SetUp sets the volume up.
func (m withoutOwnersMounter) SetUp(args volume.MounterArgs) error {
	args.FsUser, args.FsGroup = nil, nil
	return m.Mounter.SetUp(args)
}

// SetUpAt sets the volume up in a directory.
func (m withoutOwnersMounter) SetUpAt(dir string, args volume.MounterArgs) error {
	args.FsUser, args.FsGroup = nil, nil
	return m.Mounter.SetUpAt(dir, args)
}
