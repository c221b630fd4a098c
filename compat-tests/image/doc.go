// Package image tests the container image without a container engine.
//
// The image's file system is put together as docker/Dockerfile does it, on a busybox of the machine's own in place of the base
// image. A container is imitated with what engines use: mount, process, host-name and network namespaces, a root directory, and
// the image's user. Its networks are a bridge, address translation and a userland proxy inside a namespace that stands for the
// machine that runs the containers; nothing touches the machine's own network.
//
// What cannot be shown so is listed here: an engine's own reading of HEALTHCHECK, VOLUME and EXPOSE lines, and its network
// drivers other than a bridge.
package image
