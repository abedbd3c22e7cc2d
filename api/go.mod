module github.com/capstan-dev/capstan/api

go 1.26.0

require (
	k8s.io/apimachinery v0.36.3 // indirect
	sigs.k8s.io/cluster-api/api v1.14.2 // indirect
)
