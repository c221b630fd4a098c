package org.slf4j.impl;

import millrace.tools.ToolLog;

import org.slf4j.ILoggerFactory;
import org.slf4j.spi.LoggerFactoryBinder;

/** How slf4j 1.7 finds what writes its log lines: {@link ToolLog}. */
public final class StaticLoggerBinder implements LoggerFactoryBinder {
    public static final String REQUESTED_API_VERSION = "1.7.36";

    private static final StaticLoggerBinder ONLY = new StaticLoggerBinder();

    private StaticLoggerBinder() {
    }

    public static StaticLoggerBinder getSingleton() {
        return ONLY;
    }

    @Override
    public ILoggerFactory getLoggerFactory() {
        return ToolLog::named;
    }

    @Override
    public String getLoggerFactoryClassStr() {
        return ToolLog.class.getName();
    }
}
