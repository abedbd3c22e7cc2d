package main

// hollowSocket is where local hosts serve hollow pods. The specs deploy images that no registry here has.
const hollowSocket = "unix:///run/capstan/hollow.sock"

// hollow makes the pods of all machines hollow.
func hollow(documents []document) {
	for _, d := range documents {
		config := []string{"spec"}
		switch d.kind() {
		case "KubeadmControlPlane":
			config = []string{"spec", "kubeadmConfigSpec"}
		case "KubeadmControlPlaneTemplate":
			config = []string{"spec", "template", "spec", "kubeadmConfigSpec"}
		case "KubeadmConfigTemplate":
			config = []string{"spec", "template", "spec"}
		case "KubeadmConfig":
		default:
			continue
		}
		for _, phase := range []string{"initConfiguration", "joinConfiguration"} {
			if path := append(config, phase); d.get(path...) != nil {
				d.set(hollowSocket, append(path, "nodeRegistration", "criSocket")...)
			}
		}
	}
}
