#!/bin/sh
# Finishes the image's file system: the user, the names under which apache/kafka's and cp-kafka's images have Kafka's tools,
# and the directories they write to.
set -eu
grep -q '^appuser:' /etc/passwd || echo 'appuser:x:1000:1000:Millrace:/home/appuser:/bin/sh' >> /etc/passwd
grep -q '^appuser:' /etc/group || echo 'appuser:x:1000:' >> /etc/group
mkdir -p /home/appuser /etc/kafka/secrets /var/lib/kafka/data /mnt/shared/config /opt/kafka/bin /opt/kafka/config /opt/kafka/logs
ln -sf /opt/millrace/millrace /bin/millrace
for tool in $(/opt/millrace/millrace tools); do
	ln -sf /opt/millrace/millrace "/opt/kafka/bin/$tool.sh"
	ln -sf /opt/millrace/millrace "/bin/$tool"
done
chown -R 1000:1000 /home/appuser /etc/kafka /etc/confluent /var/lib/kafka /mnt/shared/config /opt/kafka
