# The image of one application: docker build -f deploy/docker/application.Dockerfile -t wordcount DIRECTORY
# DIRECTORY holds the wheel of its program. The same image runs the application and its task managers.
FROM millstream
COPY wordcount-1.0-py3-none-any.whl /opt/application/
CMD ["standalone-job", "/opt/application/wordcount-1.0-py3-none-any.whl"]
